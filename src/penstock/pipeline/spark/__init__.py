"""How Spark starts on one machine: which Java, the JVM, the session and its settings, the Python workers."""
