import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Produces to a topic and reads from it, with the configuration in each line of JSON: the answer is {"result": "ok"} or
 * {"error": text}. With "hold_ms" it goes on producing by the same connections for that long.
 */
public final class SecurityDriver {
    private static final ObjectMapper JSON = new ObjectMapper();

    private SecurityDriver() {}

    public static void main(String[] arguments) throws Exception {
        PrintStream answers = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        System.setOut(System.err);
        BufferedReader requests = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = requests.readLine(); line != null; line = requests.readLine()) {
            ObjectNode answer = JSON.createObjectNode();
            try {
                attempt(JSON.readTree(line));
                answer.put("result", "ok");
            } catch (Exception error) {
                Throwable cause = error instanceof ExecutionException ? error.getCause() : error;
                answer.put("error", cause + (cause.getCause() == null ? "" : ": " + cause.getCause()));
            }
            answers.println(answer);
        }
    }

    private static void attempt(JsonNode request) throws Exception {
        Map<String, Object> config = new HashMap<>(JSON.convertValue(request.get("config"), Map.class));
        String tokenUrl = (String) config.get("sasl.oauthbearer.token.endpoint.url");
        if (tokenUrl != null) {
            // Kafka's clients take tokens from addresses only that the machine's owner has allowed.
            System.setProperty("org.apache.kafka.sasl.oauthbearer.allowed.urls", tokenUrl);
        }
        String topic = request.get("topic").asText();
        long heldUntil = System.currentTimeMillis() + request.path("hold_ms").asLong(0);
        Map<String, Object> producing = new HashMap<>(config);
        producing.put("max.block.ms", 20000);
        producing.put("key.serializer", StringSerializer.class.getName());
        producing.put("value.serializer", StringSerializer.class.getName());
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(producing)) {
            do {
                producer.send(new ProducerRecord<>(topic, 0, null, "java")).get(10, TimeUnit.SECONDS);
                if (System.currentTimeMillis() < heldUntil) {
                    Thread.sleep(50);
                }
            } while (System.currentTimeMillis() < heldUntil);
        }
        Map<String, Object> consuming = new HashMap<>(config);
        consuming.put("default.api.timeout.ms", 10000);
        consuming.put("key.deserializer", StringDeserializer.class.getName());
        consuming.put("value.deserializer", StringDeserializer.class.getName());
        try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(consuming)) {
            TopicPartition partition = new TopicPartition(topic, 0);
            consumer.assign(List.of(partition));
            consumer.seekToBeginning(List.of(partition));
            if (consumer.poll(Duration.ofSeconds(10)).isEmpty()) {
                throw new IllegalStateException("nothing to read");
            }
        }
    }
}
