"""The commands of `python -m transformer`, one a file: `register` adds it to the parser, and says what runs it.

A command is a function of the parsed arguments that returns the exit status: 0 when all went well.
"""
