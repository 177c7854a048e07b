"""What the program does besides its window: faults, logs, settings, imports."""
