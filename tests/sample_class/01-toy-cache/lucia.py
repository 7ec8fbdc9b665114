# about: handed in a web page instead of a notebook
# expect: 1.1 none, 1.2 none, 1.3 none
# damage: not-json
