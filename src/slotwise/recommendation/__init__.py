"""Which schedule, group size and delay should I use? The plan rules out, short trainings choose."""
