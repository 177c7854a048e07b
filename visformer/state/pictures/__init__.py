"""Pictures: pure functions from State to arrays, labels, ranges; views paint them."""
