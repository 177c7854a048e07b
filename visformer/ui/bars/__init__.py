"""The parts around the tabs: what is typed, chosen, stepped and said."""
