# about: handed in untouched
# expect: 1.1 none, 1.2 none, 1.3 none
