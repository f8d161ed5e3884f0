"""A pipeline with two sinks: revenue per customer in SQLite, large orders in a topic. Each has its own progress."""

from penstock import Pipeline, Table, Topic

p = Pipeline("orders", guarantee="exactly_once", bootstrap_servers="localhost:9092")
orders = p.read(Topic("orders", schema="customer STRING, amount DOUBLE"))
revenue = orders.groupBy("customer").sum("amount").withColumnRenamed("sum(amount)", "revenue")
p.write(revenue, Table("sqlite:///totals.db", "revenue", key="customer"), name="totals")
p.write(orders.where("amount > 3"), Topic("large-orders", key="customer"), name="large")

print("adding orders up in totals.db, and copying large ones to large-orders")
p.run(once=True)
print("all available orders are in both")
