"""The command line's commands: one module each, listed in cli.COMMANDS.

Each has ``add_options(parser)`` and ``run(options)``, which returns the exit code.
Heavy modules are imported by ``run``.
"""
