"""Wrong and right ways to compare published results. Each mistake changes one thing in `work`."""

from __future__ import annotations

from collections import defaultdict

from autograde.exercise import Mistake, Variant

ONE, APART, ORDER, NAMES, NOTHING = "one setting", "settings apart", "in order", "names", "nothing to compare"


def is_metric(row, metric):
    return row["metric"] == metric


def is_method(row, method):
    return row["method"] == method


def setting_of(row):
    return row["setting"]


def all_settings(rows, metric, method, baseline):
    return [row["setting"] for row in rows]


def difference(mine, theirs, better):
    return mine - theirs if better == "higher" else theirs - mine


def better_of(rows, of_metric):
    return of_metric[0]["better"]


def missing(mine, theirs, found, setting):
    """What to do with a setting in which one of the two was not measured."""


def work(
    gain=difference,
    metric_is=is_metric,
    method_is=is_method,
    setting=setting_of,
    order=all_settings,
    better=better_of,
    lack=missing,
    is_there=lambda value: value is not None,
    keep=lambda gain: True,
    result=lambda found: found,
    pair=lambda setting, gain: (setting, gain),
):
    def compare(rows, metric, method, baseline):
        found = []
        for name in dict.fromkeys(order(rows, metric, method, baseline)):
            here = [row for row in rows if setting(row) == name and metric_is(row, metric)]
            mine = next((row["value"] for row in here if method_is(row, method)), None)
            theirs = next((row["value"] for row in here if method_is(row, baseline)), None)
            if not (is_there(mine) and is_there(theirs)):
                lack(mine, theirs, found, name)
                continue
            value = gain(mine, theirs, better(rows, here))
            if keep(value):
                found.append(pair(name, value))
        return result(found)

    return compare


def over_all_settings(rows, metric, method, baseline):
    """Each method's newest value, of whatever setting it is."""
    of_metric = [row for row in rows if row["metric"] == metric]
    mine = [row for row in of_metric if row["method"] == method]
    theirs = [row for row in of_metric if row["method"] == baseline]
    if not mine or not theirs:
        return []
    value = difference(mine[-1]["value"], theirs[-1]["value"], of_metric[0]["better"])
    return [(mine[-1]["setting"], value)]


def baseline_of_the_first(rows, metric, method, baseline):
    """One baseline for all settings: the first that was measured."""
    of_metric = [row for row in rows if row["metric"] == metric]
    theirs = next((row["value"] for row in of_metric if row["method"] == baseline), None)
    found = []
    for name in dict.fromkeys(row["setting"] for row in rows):
        here = {row["method"]: row for row in of_metric if row["setting"] == name}
        if method in here and baseline in here:
            found.append((name, difference(here[method]["value"], theirs, here[method]["better"])))
    return found


def baseline_of_any(rows, metric, method, baseline):
    """Where the baseline was not measured, that of another setting steps in."""
    of_metric = [row for row in rows if row["metric"] == metric]
    other = next((row["value"] for row in of_metric if row["method"] == baseline), None)
    found = []
    for name in dict.fromkeys(row["setting"] for row in rows):
        here = {row["method"]: row for row in of_metric if row["setting"] == name}
        if method in here and other is not None:
            theirs = here[baseline]["value"] if baseline in here else other
            found.append((name, difference(here[method]["value"], theirs, here[method]["better"])))
    return found


def row_by_row(rows, metric, method, baseline):
    """The n-th row of one method is set against the n-th row of the other."""
    mine = [row for row in rows if row["metric"] == metric and row["method"] == method]
    theirs = [row for row in rows if row["metric"] == metric and row["method"] == baseline]
    return [(a["setting"], difference(a["value"], b["value"], a["better"])) for a, b in zip(mine, theirs)]


def neighbours(rows, metric, method, baseline):
    """Only rows next to each other are taken for a pair."""
    found = {}
    of_metric = [row for row in rows if row["metric"] == metric]
    for a, b in zip(of_metric, of_metric[1:]):
        both = {a["method"]: a, b["method"]: b}
        if a["setting"] == b["setting"] and set(both) == {method, baseline}:
            value = difference(both[method]["value"], both[baseline]["value"], a["better"])
            found.setdefault(a["setting"], value)
    order = dict.fromkeys(row["setting"] for row in rows)
    return [(name, found[name]) for name in order if name in found]


def last_measured(rows, metric, method, baseline):
    """The dict is by method only, so that each setting overwrites the one before."""
    latest, found = {}, {}
    for row in rows:
        if row["metric"] == metric:
            latest[row["method"]] = row["value"]
            if method in latest and baseline in latest:
                found[row["setting"]] = difference(latest[method], latest[baseline], row["better"])
    return list(found.items())


def none_when_missing(mine, theirs, found, setting):
    if mine is not None or theirs is not None:
        found.append((setting, None))


def zero_when_missing(mine, theirs, found, setting):
    if mine is not None or theirs is not None:
        found.append((setting, 0.0))


def raises_when_missing(mine, theirs, found, setting):
    if mine is not None or theirs is not None:
        raise KeyError(setting)


def stops_when_missing(rows, metric, method, baseline):
    """The first setting that lacks one of them ends the search."""
    names = []
    for name in dict.fromkeys(row["setting"] for row in rows):
        here = {row["method"] for row in rows if row["setting"] == name and row["metric"] == metric}
        if len(here & {method, baseline}) == 1:
            break
        names.append(name)
    return names


def of(wanted):
    """Settings in the order of the rows of one kind."""

    def order(rows, metric, method, baseline):
        return [row["setting"] for row in rows if row["metric"] == metric and wanted(row, method, baseline)]

    return order


def raises_on_nothing(found):
    if not found:
        raise ValueError("no setting has both")
    return found


MISTAKES = (
    Mistake(
        "better-by-unit",
        work(better=lambda rows, here: "higher" if here[0]["unit"] == "points" else "lower"),
        "The direction is guessed from the unit. Each row says it: row['better'].",
        ONE,
    ),
    Mistake(
        "better-by-name",
        work(better=lambda rows, here: "lower" if "time" in here[0]["metric"] else "higher"),
        "The direction is guessed from the metric's name. Each row says it: row['better'].",
        ONE,
    ),
    Mistake(
        "order-of-both-methods",
        work(order=lambda rows, metric, a, b: [row["setting"] for row in rows if row["method"] in (a, b)]),
        "Settings come in the order of the two methods' rows. Rows of other methods count too: first in whatever row.",
        ORDER,
    ),
    Mistake(
        "sign-turned",
        work(gain=lambda mine, theirs, better: difference(theirs, mine, better)),
        "Your gains have the wrong sign: positive means that `method` is better than `baseline`.",
        ONE,
    ),
    Mistake(
        "higher-is-always-better",
        work(gain=lambda mine, theirs, better: mine - theirs),
        "You always take method - baseline. Where lower is better, fewer seconds are a gain.",
        ONE,
    ),
    Mistake(
        "lower-is-always-better",
        work(gain=lambda mine, theirs, better: theirs - mine),
        "You always take baseline - method. Where higher is better, more points are a gain.",
        ONE,
    ),
    Mistake(
        "no-sign",
        work(gain=lambda mine, theirs, better: abs(mine - theirs)),
        "You drop the sign. A loss is a gain below 0.",
        ONE,
    ),
    Mistake(
        "percent",
        work(gain=lambda mine, theirs, better: difference(mine, theirs, better) / (theirs or 1) * 100),
        "You give percent of the baseline. Wanted is the difference, in the metric's unit.",
        ONE,
    ),
    Mistake(
        "share",
        work(gain=lambda mine, theirs, better: difference(mine, theirs, better) / (theirs or 1)),
        "You divide by the baseline. Wanted is the difference, in the metric's unit.",
        ONE,
    ),
    Mistake(
        "ratio",
        work(gain=lambda mine, theirs, better: mine / theirs if theirs else mine),
        "You give how many times the baseline. Wanted is the difference, in the metric's unit.",
        ONE,
    ),
    Mistake(
        "rounded",
        work(gain=lambda mine, theirs, better: float(round(difference(mine, theirs, better)))),
        "You round to whole numbers. Half a point is a difference too: do not round.",
        ONE,
    ),
    Mistake(
        "value-of-the-method",
        work(gain=lambda mine, theirs, better: mine),
        "You give the method's value. Wanted is how much better it is than the baseline.",
        ONE,
    ),
    Mistake(
        "wins-or-loses",
        work(gain=lambda mine, theirs, better: float(difference(mine, theirs, better) > 0)),
        "You say whether the method is better. Wanted is by how much.",
        ONE,
    ),
    Mistake(
        "a-dict",
        work(result=dict),
        "You return a dict. Wanted is a list of pairs (setting, gain).",
        ONE,
    ),
    Mistake(
        "gains-only",
        work(pair=lambda setting, gain: gain),
        "You return the gains alone. Each belongs to its setting: (setting, gain).",
        ONE,
    ),
    Mistake(
        "settings-only",
        work(pair=lambda setting, gain: setting),
        "You return the settings alone. Each comes with its gain: (setting, gain).",
        ONE,
    ),
    Mistake(
        "gain-first",
        work(pair=lambda setting, gain: (gain, setting)),
        "Your pairs are the wrong way round. Wanted is (setting, gain).",
        ONE,
    ),
    Mistake(
        "only-gains-listed",
        work(keep=lambda gain: gain > 0),
        "You leave losses out. A setting in which the method is worse belongs to the answer.",
        ONE,
    ),
    Mistake(
        "metric-forgotten",
        work(metric_is=lambda row, metric: True),
        "The metric does not enter: seconds are compared with points. Look at rows of this metric only.",
        ONE,
    ),
    Mistake(
        "direction-of-the-first-row",
        work(better=lambda rows, of_metric: rows[0]["better"]),
        "You take what is better from the first row of the table. Each metric says it for itself.",
        ONE,
    ),
    Mistake(
        "over-all-settings",
        over_all_settings,
        "You compare the newest value of each method, whatever the setting. Only one setting's may be compared.",
        APART,
    ),
    Mistake(
        "baseline-of-the-first",
        baseline_of_the_first,
        "All settings are compared with one baseline, that of the first. Each has a baseline of its own.",
        APART,
    ),
    Mistake(
        "baseline-of-any",
        baseline_of_any,
        "Where the baseline was not measured, you take that of another setting. Leave such a setting out.",
        APART,
    ),
    Mistake(
        "row-by-row",
        row_by_row,
        "You set the n-th row of one method against the n-th of the other. They may be of two settings.",
        APART,
    ),
    Mistake(
        "neighbours",
        neighbours,
        "You compare rows that stand next to each other. Rows of a setting may lie far apart.",
        ONE,
    ),
    Mistake(
        "last-measured",
        last_measured,
        "You remember one value for each method, so a setting is compared with the one before. Remember by setting.",
        APART,
    ),
    Mistake(
        "first-setting-only",
        work(result=lambda found: found[:1]),
        "You stop after one setting. Wanted are all that have both methods.",
        APART,
    ),
    Mistake(
        "last-setting-only",
        work(result=lambda found: found[-1:]),
        "Only the last setting comes back. Wanted are all that have both methods.",
        APART,
    ),
    Mistake(
        "mean-over-settings",
        work(result=lambda found: found and [(s, sum(g for _, g in found) / len(found)) for s, _ in found]),
        "You take the mean over settings. Each setting stands for itself.",
        APART,
    ),
    Mistake(
        "none-when-missing",
        work(lack=none_when_missing),
        "A setting with one of the two methods comes back as None. Leave it out.",
        APART,
    ),
    Mistake(
        "zero-when-missing",
        work(lack=zero_when_missing),
        "A setting with one of the two methods comes back with 0, as if they were equal. Leave it out.",
        APART,
    ),
    Mistake(
        "raises-when-missing",
        work(lack=raises_when_missing),
        "A setting with one of the two methods makes you raise. Leave it out.",
        APART,
    ),
    Mistake(
        "stops-when-missing",
        work(order=stops_when_missing),
        "The first setting that lacks a method ends your search. Leave it out, and go on.",
        APART,
    ),
    Mistake(
        "setting-by-its-first-word",
        work(
            setting=lambda row: row["setting"].split()[0],
            order=lambda rows, *asked: [row["setting"].split()[0] for row in rows],
        ),
        "You look at the first word of a setting. All of its text tells which one it is.",
        APART,
    ),
    Mistake(
        "sorted",
        work(result=sorted),
        "You sort the settings by name. They come in the order in which they first appear.",
        APART,
    ),
    Mistake(
        "best-first",
        work(result=lambda found: sorted(found, key=lambda pair: -pair[1])),
        "You sort by gain. Settings come in the order in which they first appear.",
        APART,
    ),
    Mistake(
        "newest-first",
        work(result=lambda found: found[::-1]),
        "The last setting comes first. They come in the order in which they first appear.",
        APART,
    ),
    Mistake(
        "in-the-method's-order",
        work(order=of(lambda row, method, baseline: row["method"] == method)),
        "Settings come as the method's rows do. They come as they first appear in the table, in whatever row.",
        APART,
    ),
    Mistake(
        "in-the-baseline's-order",
        work(order=of(lambda row, method, baseline: row["method"] == baseline)),
        "Settings come as the baseline's rows do. They come as they first appear in the table, in whatever row.",
        APART,
    ),
    Mistake(
        "in-the-metric's-order",
        work(order=of(lambda row, method, baseline: True)),
        "You count first appearances in rows of this metric. A row of another metric counts too.",
        ORDER,
    ),
    Mistake(
        "method-by-its-beginning",
        work(method_is=lambda row, method: row["method"].startswith(method)),
        "You take GQA-8 for GQA: a name that begins so is another method. Compare whole names.",
        NAMES,
    ),
    Mistake(
        "method-in-any-case",
        work(method_is=lambda row, method: row["method"].lower() == method.lower()),
        "You take capital letters and small ones for the same. Compare names as they are.",
        NAMES,
    ),
    Mistake(
        "metric-by-its-beginning",
        work(metric_is=lambda row, metric: row["metric"].startswith(metric)),
        "You take MMLU-Pro for MMLU: a name that begins so is another metric. Compare whole names.",
        NAMES,
    ),
    Mistake(
        "metric-in-any-case",
        work(metric_is=lambda row, metric: row["metric"].lower() == metric.lower()),
        "You take capital letters and small ones of a metric for the same. Compare names as they are.",
        NAMES,
    ),
    Mistake(
        "even-left-out",
        work(keep=lambda gain: gain != 0),
        "Where both are equal you say nothing. A gain of 0 is an answer.",
        NAMES,
    ),
    Mistake(
        "zero-is-missing",
        work(is_there=bool),
        "A measured 0 counts as missing: `if value` is false for 0. Ask whether it is there.",
        NAMES,
    ),
    Mistake(
        "below-zero-is-missing",
        work(is_there=lambda value: value is not None and value >= 0),
        "Values below 0 count as missing. Some metrics have them.",
        NAMES,
    ),
    Mistake(
        "sizes-only",
        work(gain=lambda mine, theirs, better: difference(abs(mine), abs(theirs), better)),
        "You drop the sign of the values themselves. -20 is higher than -30.",
        NAMES,
    ),
    Mistake(
        "raises-on-nothing",
        work(result=raises_on_nothing),
        "You raise where no setting has both. The answer is [].",
        NOTHING,
    ),
    Mistake(
        "none-for-nothing",
        work(result=lambda found: found or None),
        "You return None where no setting has both. The answer is [].",
        NOTHING,
    ),
)


def by_dicts(rows, metric, method, baseline):
    """A dict of dicts, in one walk."""
    table = defaultdict(dict)
    for row in rows:
        table[row["setting"]]
        if row["metric"] == metric:
            table[row["setting"]][row["method"]] = row
    pairs = []
    for setting, by_method in table.items():
        if {method, baseline} <= by_method.keys():
            gain = by_method[method]["value"] - by_method[baseline]["value"]
            pairs.append([setting, -gain if by_method[method]["better"] == "lower" else gain])
    return pairs


def by_a_join(rows, metric, method, baseline):
    """Every pair of rows, as a database would; sorted by the place of the setting afterwards."""
    places = {}
    for place, row in enumerate(rows):
        places.setdefault(row["setting"], place)
    pairs = [
        (mine["setting"], (mine["value"] - theirs["value"]) * (1 if mine["better"] == "higher" else -1))
        for mine in rows
        for theirs in rows
        if mine["setting"] == theirs["setting"]
        and mine["metric"] == theirs["metric"] == metric
        and (mine["method"], theirs["method"]) == (method, baseline)
    ]
    return tuple(sorted(pairs, key=lambda pair: places[pair[0]]))


def by_keys(rows, metric, method, baseline):
    """One flat dict with all three names as its key."""
    value = {(row["setting"], row["metric"], row["method"]): row["value"] for row in rows}
    better = {row["metric"]: row["better"] for row in rows}
    seen, found = [], []
    for row in rows:
        if row["setting"] in seen:
            continue
        seen.append(row["setting"])
        try:
            mine, theirs = (value[row["setting"], metric, name] for name in (method, baseline))
        except KeyError:
            continue
        found.append((row["setting"], theirs - mine if better[metric] == "lower" else mine - theirs))
    return found


def by_generator(rows, metric, method, baseline):
    """A generator inside, and a list of what it yields."""
    sign = {"higher": 1.0, "lower": -1.0}

    def signed(setting, name):
        for row in rows:
            if (row["setting"], row["metric"], row["method"]) == (setting, metric, name):
                yield sign[row["better"]] * row["value"]

    def each():
        for setting in {row["setting"]: None for row in rows}:
            mine, theirs = list(signed(setting, method)), list(signed(setting, baseline))
            if mine and theirs:
                yield setting, mine[0] - theirs[0]

    return list(each())


VARIANTS = (
    Variant("a dict of dicts", by_dicts),
    Variant("a join, tuples", by_a_join),
    Variant("one flat dict", by_keys),
    Variant("a generator", by_generator),
    Variant("walks through the rows", work()),
)
