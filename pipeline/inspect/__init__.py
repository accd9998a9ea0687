"""What a data set and its traces hold, and what is wrong with them: no model is asked, but for a plan."""
