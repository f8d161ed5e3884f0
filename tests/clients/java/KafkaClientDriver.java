import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.ConsumerGroupDescription;
import org.apache.kafka.clients.admin.GroupListing;
import org.apache.kafka.clients.admin.MemberDescription;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.admin.TransactionDescription;
import org.apache.kafka.clients.admin.TransactionListing;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.ApiException;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.utils.AppInfoParser;

/**
 * Drives Apache Kafka's Java client by a line of JSON for each call; see ../json_lines_client.py for the form of
 * requests and answers.
 */
public final class KafkaClientDriver {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final long EARLIEST = -2;
    private static final long LATEST = -1;
    private static final long MAX_TIMESTAMP = -3;

    private final String bootstrapServers;
    private final Admin admin;
    private final Map<Integer, GroupMember> members = new HashMap<>();
    private final Map<Integer, KafkaProducer<byte[], byte[]>> producers = new HashMap<>();
    private final Set<Integer> initialised = new HashSet<>();
    private int lastNumber;

    private KafkaClientDriver(String bootstrapServers) {
        this.bootstrapServers = bootstrapServers;
        this.admin = Admin.create(new HashMap<>(connection()));
    }

    public static void main(String[] arguments) throws Exception {
        // Answers alone go to standard output; whatever libraries print goes to standard error.
        PrintStream answers = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        System.setOut(System.err);
        KafkaClientDriver driver = new KafkaClientDriver(arguments[0]);
        BufferedReader requests = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = requests.readLine(); line != null; line = requests.readLine()) {
            answers.println(driver.answer(JSON.readTree(line)));
        }
        driver.admin.close(Duration.ofSeconds(5));
    }

    /** Where the broker is, and patience that suits a test. */
    private Map<String, Object> connection() {
        return Map.of(
            "bootstrap.servers", bootstrapServers, "request.timeout.ms", 10000, "default.api.timeout.ms", 20000);
    }

    private ObjectNode answer(JsonNode request) {
        ObjectNode answer = JSON.createObjectNode();
        try {
            answer.set("result", JSON.valueToTree(call(request)));
        } catch (Exception error) {
            Throwable cause = error instanceof ExecutionException ? error.getCause() : error;
            answer.put("error", cause.toString());
            if (cause instanceof ApiException && Errors.forException(cause) != Errors.UNKNOWN_SERVER_ERROR) {
                answer.put("code", Errors.forException(cause).code());
            }
        }
        return answer;
    }

    private Object call(JsonNode request) throws Exception {
        String topic = request.path("topic").asText();
        TopicPartition partition = new TopicPartition(topic, request.path("partition").asInt());
        switch (request.get("call").asText()) {
            case "version":
                return AppInfoParser.getVersion();
            case "produce":
                produce(request, partition);
                return null;
            case "consume":
                return consume(request, partition);
            case "create_topic":
                NewTopic created = new NewTopic(topic, request.get("partitions").asInt(), (short) 1);
                created.configs(JSON.convertValue(request.get("config"), Map.class));
                admin.createTopics(List.of(created)).all().get();
                return null;
            case "list_topics":
                return admin.listTopics().names().get();
            case "partition_count":
                return admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic).partitions().size();
            case "add_partitions":
                NewPartitions total = NewPartitions.increaseTo(request.get("total").asInt());
                admin.createPartitions(Map.of(topic, total)).all().get();
                return null;
            case "describe_config":
                return describeConfig(topic);
            case "alter_config_incrementally":
                ConfigEntry entry = new ConfigEntry(request.get("name").asText(), request.get("value").asText());
                List<AlterConfigOp> set = List.of(new AlterConfigOp(entry, AlterConfigOp.OpType.SET));
                admin.incrementalAlterConfigs(Map.of(topicResource(topic), set)).all().get();
                return null;
            case "delete_records":
                RecordsToDelete before = RecordsToDelete.beforeOffset(request.get("before_offset").asLong());
                admin.deleteRecords(Map.of(partition, before)).all().get();
                return null;
            case "delete_topic":
                admin.deleteTopics(List.of(topic)).all().get();
                return null;
            case "broker_ports":
                return admin.describeCluster().nodes().get().stream().map(Node::port).toList();
            case "log_bytes":
                return logBytes(partition);
            case "list_offset":
                return listOffset(partition, request.get("at").asLong());
            default:
                return request.has("producer") ? callProducer(request, partition) : callGroup(request, topic);
        }
    }

    private Object callGroup(JsonNode request, String topic) throws Exception {
        String group = request.path("group").asText();
        GroupMember member = members.get(request.path("member").asInt());
        switch (request.get("call").asText()) {
            case "join":
                members.put(++lastNumber, new GroupMember(connection(), request));
                return lastNumber;
            case "member_state":
                return member.state();
            case "member_commit":
                member.commit(request.get("offsets"));
                return null;
            case "member_close":
                members.remove(request.get("member").asInt()).close();
                return null;
            case "committed":
                List<Object> offsets = new ArrayList<>();
                admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get().forEach((each, committed) -> {
                    if (committed != null && each.topic().equals(topic)) {
                        offsets.add(List.of(each.partition(), committed.offset()));
                    }
                });
                return offsets;
            case "alter_committed":
                Map<TopicPartition, OffsetAndMetadata> wanted = new HashMap<>();
                for (JsonNode each : request.get("offsets")) {
                    OffsetAndMetadata offset = new OffsetAndMetadata(each.get(1).asLong());
                    wanted.put(new TopicPartition(topic, each.get(0).asInt()), offset);
                }
                admin.alterConsumerGroupOffsets(group, wanted).all().get();
                return null;
            case "list_groups":
                return admin.listGroups().all().get().stream().map(GroupListing::groupId).toList();
            case "describe_group":
                ConsumerGroupDescription described = admin.describeConsumerGroups(List.of(group)).all().get().get(group);
                List<Object> assignments = new ArrayList<>();
                for (MemberDescription each : described.members()) {
                    assignments.add(
                        each.assignment().topicPartitions().stream().map(TopicPartition::partition).toList());
                }
                return Map.of("state", described.groupState().name(), "assignments", assignments);
            case "delete_group":
                admin.deleteConsumerGroups(List.of(group)).all().get();
                return null;
            case "open_producer":
                producers.put(++lastNumber, openProducer(request.get("transactional_id").asText()));
                return lastNumber;
            case "list_transactions":
                Map<String, String> states = new HashMap<>();
                for (TransactionListing each : admin.listTransactions().all().get()) {
                    states.put(each.transactionalId(), each.state().toString());
                }
                return states;
            case "describe_transaction":
                String id = request.get("transactional_id").asText();
                TransactionDescription transaction = admin.describeTransactions(List.of(id)).all().get().get(id);
                List<Object> partitions = new ArrayList<>();
                transaction.topicPartitions().forEach(each -> partitions.add(List.of(each.topic(), each.partition())));
                return Map.of("state", transaction.state().toString(), "partitions", partitions);
            default:
                throw new IllegalArgumentException("no such call: " + request);
        }
    }

    private Object callProducer(JsonNode request, TopicPartition partition) throws Exception {
        int number = request.get("producer").asInt();
        KafkaProducer<byte[], byte[]> producer = producers.get(number);
        switch (request.get("call").asText()) {
            case "producer_begin":
                if (initialised.add(number)) {
                    producer.initTransactions();
                }
                producer.beginTransaction();
                break;
            case "producer_send":
                send(producer, request.get("records"), partition);
                break;
            case "producer_send_offsets":
                GroupMember member = members.get(request.get("member").asInt());
                producer.sendOffsetsToTransaction(member.toCommit(request.get("offsets")), member.groupMetadata());
                break;
            case "producer_commit":
                producer.commitTransaction();
                break;
            case "producer_abort":
                producer.abortTransaction();
                break;
            case "producer_close":
                producers.remove(number).close(Duration.ofSeconds(5));
                break;
            default:
                throw new IllegalArgumentException("no such call: " + request);
        }
        return null;
    }

    private KafkaProducer<byte[], byte[]> openProducer(String transactionalId) {
        Map<String, Object> config = producing();
        config.put("transactional.id", transactionalId);
        return new KafkaProducer<>(config);
    }

    private Map<String, Object> producing() {
        Map<String, Object> config = new HashMap<>();
        config.put("bootstrap.servers", bootstrapServers);
        config.put("request.timeout.ms", 10000);
        config.put("delivery.timeout.ms", 20000);
        config.put("max.block.ms", 20000);
        config.put("key.serializer", ByteArraySerializer.class);
        config.put("value.serializer", ByteArraySerializer.class);
        return config;
    }

    private void produce(JsonNode request, TopicPartition partition) throws Exception {
        Map<String, Object> config = producing();
        config.put("compression.type", request.get("compression").asText());
        config.put("acks", request.get("acks").asText());
        config.put("enable.idempotence", request.get("idempotent").asBoolean());
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(config)) {
            send(producer, request.get("records"), partition);
        }
    }

    private static void send(KafkaProducer<byte[], byte[]> producer, JsonNode records, TopicPartition partition)
            throws Exception {
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        for (JsonNode record : records) {
            sent.add(producer.send(toRecord(record, partition)));
        }
        for (Future<RecordMetadata> each : sent) {
            each.get();
        }
    }

    private static ProducerRecord<byte[], byte[]> toRecord(JsonNode record, TopicPartition partition) throws Exception {
        JsonNode time = record.get("timestamp_ms");
        Long timestamp = time.isNull() ? null : time.asLong();
        byte[] key = bytes(record.get("key"));
        byte[] value = bytes(record.get("value"));
        ProducerRecord<byte[], byte[]> made =
            new ProducerRecord<>(partition.topic(), partition.partition(), timestamp, key, value);
        for (JsonNode header : record.get("headers")) {
            made.headers().add(header.get(0).asText(), bytes(header.get(1)));
        }
        return made;
    }

    private ArrayNode consume(JsonNode request, TopicPartition partition) {
        Map<String, Object> config = new HashMap<>(connection());
        config.put("key.deserializer", ByteArrayDeserializer.class);
        config.put("value.deserializer", ByteArrayDeserializer.class);
        config.put("auto.offset.reset", "none");
        config.put("isolation.level", request.get("isolation").asText());
        int count = request.get("count").asInt();
        long deadline = System.nanoTime() + request.get("timeout_ms").asLong() * 1_000_000;
        ArrayNode records = JSON.createArrayNode();
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(config)) {
            consumer.assign(List.of(partition));
            consumer.seek(partition, request.get("offset").asLong());
            while (records.size() < count && System.nanoTime() < deadline) {
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(200))) {
                    if (records.size() < count) {
                        records.add(fromRecord(record));
                    }
                }
            }
        }
        return records;
    }

    private static ObjectNode fromRecord(ConsumerRecord<byte[], byte[]> record) {
        ObjectNode made = JSON.createObjectNode();
        made.put("offset", record.offset());
        made.put("timestamp_ms", record.timestamp());
        made.put("key", text(record.key()));
        made.put("value", text(record.value()));
        ArrayNode headers = made.putArray("headers");
        for (Header header : record.headers()) {
            headers.addArray().add(header.key()).add(text(header.value()));
        }
        return made;
    }

    private Map<String, String> describeConfig(String topic) throws Exception {
        ConfigResource resource = topicResource(topic);
        Map<String, String> described = new HashMap<>();
        for (ConfigEntry entry : admin.describeConfigs(List.of(resource)).all().get().get(resource).entries()) {
            described.put(entry.name(), entry.value());
        }
        return described;
    }

    private long logBytes(TopicPartition partition) throws Exception {
        int broker = admin.describeCluster().nodes().get().iterator().next().id();
        return admin.describeLogDirs(Set.of(broker)).allDescriptions().get().get(broker).values().stream()
            .filter(directory -> directory.replicaInfos().containsKey(partition))
            .mapToLong(directory -> directory.replicaInfos().get(partition).size())
            .sum();
    }

    private Long listOffset(TopicPartition partition, long at) throws Exception {
        OffsetSpec spec = at == EARLIEST ? OffsetSpec.earliest()
            : at == LATEST ? OffsetSpec.latest()
            : at == MAX_TIMESTAMP ? OffsetSpec.maxTimestamp()
            : OffsetSpec.forTimestamp(at);
        long offset = admin.listOffsets(Map.of(partition, spec)).partitionResult(partition).get().offset();
        return offset < 0 ? null : offset;
    }

    private static ConfigResource topicResource(String topic) {
        return new ConfigResource(ConfigResource.Type.TOPIC, topic);
    }

    private static byte[] bytes(JsonNode text) {
        return text.isNull() ? null : Base64.getDecoder().decode(text.asText());
    }

    private static String text(byte[] bytes) {
        return bytes == null ? null : Base64.getEncoder().encodeToString(bytes);
    }
}
