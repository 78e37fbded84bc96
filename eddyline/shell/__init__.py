"""The in-process shell: statements and dot commands from a script, a pipe or a terminal, their results as text.

The modules, in the order a piece of input passes them:

    pieces       lines to pieces: whole statements, or one dot command
    interpreter  a piece to its result; the place of an error in the whole input
    commands     the dot commands
    printing     tables, changes and errors as text
    prompt       the terminal: history, several lines, completion
"""
