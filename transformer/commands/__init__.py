"""The commands of `python -m transformer`, a module a subject: `register` adds them to the parser.

A command is a function of the parsed arguments that returns the exit status: 0 when all went well.
"""
