"""Structure search over web crawls."""
