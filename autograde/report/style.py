"""The page's style sheet. Nothing in it comes from a class."""

STYLE = """
:root { color-scheme: light dark; --paper: #fdfdfb; --ink: #23272b; --soft: #5d646b; --line: #d8dad7;
  --good: #1a7f5a; --bad: #b3441e; --bar: #3d6a9e; --on: #ffffff; --link: #1f5c99; }
@media (prefers-color-scheme: dark) { :root { --paper: #1b1e21; --ink: #e4e6e3; --soft: #a3aab0; --line: #3b4045;
  --good: #58b98f; --bad: #e58a63; --bar: #86aedb; --on: #14171a; --link: #8fbdee; } }
body { background: var(--paper); color: var(--ink); font: 16px/1.5 system-ui, sans-serif; max-width: 62rem;
  margin: 2rem auto; padding: 0 1rem; }
h1, h2, h3, h4 { line-height: 1.25; font-weight: 600; overflow-wrap: anywhere; }
h2 { border-bottom: 2px solid var(--line); padding-bottom: .2rem; margin-top: 3rem; }
h3 { margin-top: 2.5rem; } h4 { margin: 1.2rem 0 .3rem; font-size: 1rem; }
a { color: var(--link); }
.soft { color: var(--soft); }
.side { display: flex; flex-wrap: wrap; gap: .5rem 2rem; align-items: flex-start; }
.plot { width: 30rem; max-width: 100%; height: auto; flex: none; }
.plot text { font-size: 13px; fill: var(--ink); }
.held { fill: var(--good); } .failed { fill: var(--bad); } .count { fill: var(--bar); }
.unreached { fill: none; stroke: var(--soft); stroke-dasharray: 3 2; }
.plot .on-held, .plot .on-failed, .plot .on-count { fill: var(--on); }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: .9rem; font-variant-numeric: tabular-nums; }
caption { text-align: left; color: var(--soft); }
th, td { text-align: left; vertical-align: top; padding: .2rem .8rem .2rem 0; border-bottom: 1px solid var(--line);
  overflow-wrap: anywhere; }
th { font-weight: 600; overflow-wrap: normal; } .n { text-align: right; white-space: nowrap; }
code { font-size: .9em; }
@media print { body { max-width: none; } h3 { break-after: avoid; } tr, .plot { break-inside: avoid; } }
"""
