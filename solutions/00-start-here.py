# %% [markdown]
# # 00 · Start here
#
# A language model writes one token at a time. To write the next one it needs numbers that it worked out for every
# token before it. A **KV cache** keeps those numbers instead of working them out again. It is a small idea: two arrays
# and a counter. Yet it decides how long a prompt may be, how many people a GPU can serve, and how fast they get
# answers. It is also easy to get wrong in ways that look right.
#
# In this course you build KV caches yourself, from a toy that you can check by eye to a small server.
#
# **At the end of this lesson you can claim:** *I know how a check tells me which mistake I made, and what my machine
# can run.* It takes about ten minutes.

# %% [markdown]
# ## How a lesson works
#
# Every lesson has the same parts, in the same order.
#
# | part | what you do |
# |---|---|
# | **claim** | read what you will be able to say at the end |
# | **predict** | commit to a guess before you see the answer |
# | **idea** | see it in the smallest numbers that can be checked by eye |
# | **exercises** | write code, run the check cell below it, repeat |
# | **experiment** | run what you built and look at the result |
# | **explain**, **recall** | say it in your own words, now and next week |
#
# An exercise has four cells: a card that says what to build, a cell in which you write, a check cell, and three hints that
# stay folded until you open them. Run a cell with Shift+Enter. If things get tangled, choose *Restart Kernel and Run
# All Cells*: a lesson always runs from top to bottom, solved or not.

# %% [markdown]
# ## What this machine can run
#
# Everything graded runs on a plain CPU. Some experiments in later lessons use a GPU if there is one. The folded set-up cell
# above, which every lesson has, installs what a cloud notebook lacks. Run it: it ends with a table of what this machine has,
# and what will be skipped for want of the rest. Some later lessons also run a small real model, and say so where it is
# missing.

# %% [markdown]
# ## A check that fails on purpose
#
# Here is the first piece of every attention layer, written badly. A model compares a token with each token before
# it, and each comparison gives one **score**. The **softmax** turns a row of scores into **weights** that are positive
# and sum to 1. With several rows, every row is a question of its own, so every row must sum to 1 by itself.
#
# Written out for one row of two scores, `[0, 1]`:
#
# $$\left[\frac{e^0}{e^0 + e^1},\ \frac{e^1}{e^0 + e^1}\right] = [0.269,\ 0.731]$$
#
# **Predict:** the function below is right for one row. What will it do with two?

# %%
import numpy as np


def first_try(scores):
    powers = np.exp(scores)
    return powers / powers.sum()


print(first_try(np.array([[0.0, 1.0]])).round(3))
print(first_try(np.array([[0.0, 1.0], [0.0, 1.0]])).round(3))

# %% [markdown]
# The second output sums to 1 over *both* rows. You saw that because the example was tiny. In a model with thousands
# of rows you would not. So let the course look. `check` takes the number of an exercise and the work to be checked:

# %%
from autograde import check

_ = check("0.1", first_try)

# %% [markdown]
# Read the answer from top to bottom.
#
# - The first line has the number of the exercise and the points.
# - Next come the **stages**, from the simplest question to the hardest. Each one *held* or *failed*. You get the
#   points of the stages that held. Each wants right numbers as well as what its name says, so wrong numbers may fail
#   all of them, *input untouched* too.
# - Then comes the first stage that failed: **where** (which row, which position), what was **expected**, and what
#   your code gave.
# - **Looks like** is the diagnosis. The course knows many wrong ways to solve each exercise. Yours gave exactly the numbers
#   that one of them gives, so it can tell you which mistake you made. When nothing matches, it says why the question
#   is asked instead.
#
# The check did not look at how the code is written. It called the function with numbers that it made up, worked out the right
# answer by itself, slowly and in full, and compared every number. Loops, NumPy one-liners, float32: all fine, as
# long as the answers are right.

# %% [markdown] card="0.1"
# **Shapes:** `scores` has shape `(T, S)`: `T` rows of `S` scores. The result has the same shape.
#
# - Every row is positive and sums to 1.
# - Scores may be large: 1000 is a fine score, yet `np.exp(1000)` is `inf`. Subtracting the same number from
#   all scores of a row changes nothing in its softmax, so subtract something first.
# - The caller's `scores` must not be changed.


# %% exercise="0.1"
def softmax(scores):
    """Softmax of each row.

    scores: (T, S) array.  Returns: (T, S) array of weights; every row sums to 1.

    >>> softmax(np.array([[0.0, 1.0], [5.0, 5.0]])).round(3)
    array([[0.269, 0.731],
           [0.5  , 0.5  ]])
    """
    ### BEGIN SOLUTION
    powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)
    ### END SOLUTION


# %% check="0.1"

# %% [markdown] hints="0.1"
#

# %% [markdown]
# The number under a check is what the exercise is worth so far. It is also what a grader records, if you take this
# course in a class. A grader runs the same stages with numbers of its own, so code that only fits the numbers of
# today's check will not pass.
#
# Four more things are good to know.
#
# - `check("0.1")` without a second argument finds the function by the name on the card, here `softmax`. If the name is not
#   defined yet, it says so. Errors are reported with your own line, and a
#   loop that never ends is stopped after ten seconds.
# - Whatever your code prints during a check is not shown. Print in a cell of your own instead.
# - After `from autograde import hint, reset`, there is also `hint("0.1")`, which prints the next hint, for those who prefer a
#   function to a fold, and `reset("0.1")`, which puts the exercise as you first got it into a new cell below. Your own cell
#   stays.
# - `progress()` shows what passes so far. It is kept in a small file in your home folder, and is for you alone.

# %% tags=["nbval-ignore-output"]
from autograde import progress

progress()

# %% [markdown]
# ## Explain
#
# In a sentence or two, in your own words: why did `first_try` look right with one row? What does that tell you
# about testing with a single sequence, a single head, or a single layer?
#
# *Write your answer here. Nobody grades it; you will understand more by writing it.*

# %% [markdown]
# ## Recall
#
# **Tomorrow:** which stage of a check do you read first, and what are the three things it tells you?
#
# **Next week:** what does the softmax of a row do when you add 5 to all its scores? Why is that useful?
#
# Next: [01 · A cache you can check by eye](../01-toy-cache/01-toy-cache.ipynb).
