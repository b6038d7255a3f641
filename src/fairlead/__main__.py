"""`python -m fairlead`: the command line where the console script is not on the path.

Used by `fairlead demo` to start the scheduler with the very interpreter it runs in. Nothing else is here.
"""

from fairlead.cli.main import main

main()
