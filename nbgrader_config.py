"""nbgrader's settings for this course: `nbgrader` commands and formgrader read them from here.

The class is the folder classroom/, or the one that the environment variable CLASSROOM names. Its gradebook is a file in
it, or the database whose address is in GRADEBOOK, for example postgresql+psycopg://USER:PASSWORD@HOST/NAME.
"""

import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
if HERE not in sys.path:
    sys.path.insert(0, HERE)

from autograde.classroom.course import course_at, prepare_process  # noqa: E402

prepare_process()
c = get_config()  # noqa: F821
classroom = os.environ.get("CLASSROOM", os.path.join(HERE, "classroom"))
c.merge(course_at(HERE, classroom, db_url=os.environ.get("GRADEBOOK", "")).settings())
