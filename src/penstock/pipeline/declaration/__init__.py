"""What a pipeline is, as its author says it: one model behind YAML and Python, mistakes in words. Knows no Spark."""
