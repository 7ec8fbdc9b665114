"""From one text per lesson to the two notebooks that are committed, and the gates that keep the three in step."""
