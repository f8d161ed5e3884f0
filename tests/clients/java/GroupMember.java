import com.fasterxml.jackson.databind.JsonNode;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/** A consumer in a group, polled by a thread of its own: the only one that may touch it. */
final class GroupMember implements ConsumerRebalanceListener {
    private static final Map<String, String> ASSIGNORS = Map.of(
        "range", "org.apache.kafka.clients.consumer.RangeAssignor",
        "roundrobin", "org.apache.kafka.clients.consumer.RoundRobinAssignor",
        "cooperative-sticky", "org.apache.kafka.clients.consumer.CooperativeStickyAssignor");

    private final String topic;
    private final KafkaConsumer<byte[], byte[]> consumer;
    private final ConcurrentLinkedQueue<FutureTask<?>> tasks = new ConcurrentLinkedQueue<>();
    private final List<Object> rebalances = new ArrayList<>();
    private final List<Object> received = new ArrayList<>();
    private final Thread thread = new Thread(this::live, "group-member");
    private volatile boolean closing;
    private volatile Throwable failure;

    GroupMember(Map<String, Object> connection, JsonNode membership) {
        topic = membership.get("topic").asText();
        Map<String, Object> config = new HashMap<>(connection);
        config.put("group.id", membership.get("group").asText());
        config.put("auto.offset.reset", "earliest");
        config.put("enable.auto.commit", membership.get("auto_commit").asBoolean());
        config.put("auto.commit.interval.ms", membership.get("auto_commit_interval_ms").asInt());
        config.put("key.deserializer", ByteArrayDeserializer.class);
        config.put("value.deserializer", ByteArrayDeserializer.class);
        if (!membership.get("remote_assignor").isNull()) {
            // The newer protocol takes its timeouts from the broker.
            config.put("group.protocol", "consumer");
            config.put("group.remote.assignor", membership.get("remote_assignor").asText());
        } else {
            config.put("session.timeout.ms", membership.get("session_timeout_ms").asInt());
            config.put("heartbeat.interval.ms", membership.get("heartbeat_interval_ms").asInt());
        }
        if (!membership.get("assignor").isNull()) {
            config.put("partition.assignment.strategy", ASSIGNORS.get(membership.get("assignor").asText()));
        }
        if (!membership.get("instance_id").isNull()) {
            config.put("group.instance.id", membership.get("instance_id").asText());
        }
        consumer = new KafkaConsumer<>(config);
        thread.start();
    }

    private void live() {
        try (consumer) {
            consumer.subscribe(List.of(topic), this);
            while (!closing) {
                for (FutureTask<?> task = tasks.poll(); task != null; task = tasks.poll()) {
                    task.run();
                }
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(100))) {
                    String value = record.value() == null ? null : Base64.getEncoder().encodeToString(record.value());
                    add(received, Arrays.asList(record.partition(), record.offset(), value));
                }
            }
        } catch (Throwable error) {
            failure = error;
        }
    }

    @Override
    public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
        rebalanced("assigned", partitions);
    }

    @Override
    public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
        rebalanced("revoked", partitions);
    }

    @Override
    public void onPartitionsLost(Collection<TopicPartition> partitions) {
        rebalanced("lost", partitions);
    }

    private void rebalanced(String kind, Collection<TopicPartition> partitions) {
        add(rebalances, List.of(kind, partitions.stream().map(TopicPartition::partition).toList()));
    }

    private synchronized void add(List<Object> seen, Object event) {
        seen.add(event);
    }

    synchronized Object state() throws Exception {
        raiseFailure();
        return Map.of("rebalances", new ArrayList<>(rebalances), "received", new ArrayList<>(received));
    }

    Map<TopicPartition, OffsetAndMetadata> toCommit(JsonNode offsets) {
        Map<TopicPartition, OffsetAndMetadata> wanted = new HashMap<>();
        for (JsonNode each : offsets) {
            wanted.put(new TopicPartition(topic, each.get(0).asInt()), new OffsetAndMetadata(each.get(1).asLong()));
        }
        return wanted;
    }

    void commit(JsonNode offsets) throws Exception {
        inItsThread(() -> {
            consumer.commitSync(toCommit(offsets));
            return null;
        });
    }

    ConsumerGroupMetadata groupMetadata() throws Exception {
        return inItsThread(consumer::groupMetadata);
    }

    void close() throws Exception {
        closing = true;
        thread.join(20000);
        if (thread.isAlive()) {
            throw new IllegalStateException("the member did not end");
        }
        raiseFailure();
    }

    private <T> T inItsThread(Callable<T> work) throws Exception {
        FutureTask<T> task = new FutureTask<>(work);
        tasks.add(task);
        return task.get(20, TimeUnit.SECONDS);
    }

    private void raiseFailure() throws Exception {
        if (failure instanceof Exception) {
            throw (Exception) failure;
        }
        if (failure != null) {
            throw new IllegalStateException(failure);
        }
    }
}
