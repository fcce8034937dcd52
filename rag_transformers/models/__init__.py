"""Models: how one is given, called and read, what a failure means, and many calls in one run."""
