"""The command line's commands: a module each, entered in cli.COMMANDS.

Each has ``add_options(parser)`` and ``run(options)``, which returns the exit code. What
is heavy is imported by ``run``, when it is known what to do.
"""
