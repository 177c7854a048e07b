"""Pictures: pure functions from State to arrays, labels and ranges; views paint them."""
