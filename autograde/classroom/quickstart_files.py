"""What `quickstart` writes besides the lessons."""

from __future__ import annotations

from collections.abc import Sequence

NBGRADER_CONFIG = '''"""nbgrader's settings for this course: `nbgrader` commands and formgrader read them from here.

The class is the folder classroom/, or the one that the environment variable CLASSROOM names. Its gradebook is a file in
it, or the database whose address is in GRADEBOOK, for example postgresql+psycopg://USER:PASSWORD@HOST/NAME.
"""

import os

from autograde.classroom.course import course_at, prepare_process

HERE = os.path.dirname(os.path.abspath(__file__))

prepare_process()
c = get_config()  # noqa: F821
classroom = os.environ.get("CLASSROOM", os.path.join(HERE, "classroom"))
c.merge(course_at(HERE, classroom, db_url=os.environ.get("GRADEBOOK", "")).settings())

# Your own settings go below; `autograde grade` reads them too. For example, where the exchange lies:
# c.Exchange.root = "/srv/nbgrader/exchange"
'''

GITIGNORE = """# Students' work, marks and the secret never live in git.
/classroom/*
!/classroom/README.md

# Made by Python, Jupyter and the builder
__pycache__/
.ipynb_checkpoints/
/.cache/
"""

FILES = {"nbgrader_config.py": NBGRADER_CONFIG, ".gitignore": GITIGNORE}

README = """# A class

Run these in the folder above this one. Each takes `--help`, and all but `report` take `--dry-run`: it says what would
happen and writes nothing.

1. `autograde release classroom {lesson} --zip {lesson}.zip`: what students get. Or `--to FOLDER`, or `--exchange`.
2. `autograde collect classroom submissions.zip`: what the learning platform exported, into `submitted/`.
3. `autograde grade classroom`: locked in, in parallel; marks go into nbgrader's gradebook.
4. `autograde feedback classroom`: the pages anew, after marking by hand. A page for each student is in `feedback/`.
5. `autograde export classroom`: `grades.csv`, and with `--lms` a file for Canvas or Moodle.
6. `autograde report classroom`: which mistakes the class made.

To look at work and to mark by hand, start `jupyter lab` in the folder above and open `/formgrader`.
Keep `.secret` with `gradebook.db`: the checks' random inputs derive from it.
"""


def class_readme(lessons: Sequence[str]) -> str:
    """The page in a new class's folder; its examples name a lesson of the course: the second, where there is one."""
    return README.format(lesson=lessons[:2][-1])
