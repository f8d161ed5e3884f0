import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Base64;
import java.util.Date;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.connect.data.Field;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.data.SchemaAndValue;
import org.apache.kafka.connect.data.Struct;
import org.apache.kafka.connect.json.JsonConverter;
import org.apache.kafka.connect.storage.Converter;
import org.apache.kafka.connect.storage.HeaderConverter;

/**
 * Kafka's converters, driven by a line of JSON for each call.
 *
 * A request is {"call": "to" | "from" | "header_to" | "header_from", "class": ..., "config": {...}, ...}. Payloads are
 * base64. Values are tagged texts, which say their Java class, and lists of them; see `encode`. The answer is
 * {"schema": ..., "value": ...}, {"payload": ...}, or {"error": class, "message": ...}.
 */
public final class ConverterDriver {
    private static final ObjectMapper MAPPER = new ObjectMapper();
    private static final JsonNodeFactory NODES = JsonNodeFactory.instance;
    private final Map<String, Object> instances = new HashMap<>();
    private final JsonConverter schemas = new JsonConverter();

    private ConverterDriver() {
        schemas.configure(Map.of("converter.type", "value", "schemas.cache.size", "10"));
    }

    public static void main(String[] arguments) throws Exception {
        ConverterDriver driver = new ConverterDriver();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            ArrayNode answers = NODES.arrayNode();
            for (JsonNode request : MAPPER.readTree(line)) {
                answers.add(driver.answer(request));
            }
            out.println(MAPPER.writeValueAsString(answers));
            out.flush();
        }
    }

    private ObjectNode answer(JsonNode request) throws Exception {
        ObjectNode answer = NODES.objectNode();
        try {
            switch (request.get("call").textValue()) {
                case "to" -> put(answer, converter(request).toConnectData("topic", payload(request)));
                case "header_to" -> put(answer, headers(request).toConnectHeader("topic", "name", payload(request)));
                case "from" -> {
                    Schema schema = schema(request);
                    put(answer, converter(request).fromConnectData("topic", schema, decode(schema, request.get("value"))));
                }
                case "header_from" -> {
                    Schema schema = schema(request);
                    Object value = decode(schema, request.get("value"));
                    put(answer, headers(request).fromConnectHeader("topic", "name", schema, value));
                }
                default -> throw new IllegalArgumentException(request.toString());
            }
        } catch (RuntimeException error) {
            answer.removeAll();
            answer.put("error", error.getClass().getName());
            answer.put("message", error.getMessage());
        }
        return answer;
    }

    private Converter converter(JsonNode request) {
        return (Converter) instances.computeIfAbsent("V" + request.get("class") + request.get("config"), key -> {
            Converter made = (Converter) instance(request);
            made.configure(config(request), false);
            return made;
        });
    }

    private HeaderConverter headers(JsonNode request) {
        return (HeaderConverter) instances.computeIfAbsent("H" + request.get("class") + request.get("config"), key -> {
            HeaderConverter made = (HeaderConverter) instance(request);
            Map<String, Object> config = config(request);
            config.put("converter.type", "header");
            made.configure(config);
            return made;
        });
    }

    private static Object instance(JsonNode request) {
        try {
            return Class.forName(request.get("class").textValue()).getDeclaredConstructor().newInstance();
        } catch (ReflectiveOperationException error) {
            throw new IllegalArgumentException(error);
        }
    }

    private static Map<String, Object> config(JsonNode request) {
        Map<String, Object> config = new HashMap<>();
        request.get("config").properties().forEach(entry -> config.put(entry.getKey(), entry.getValue().textValue()));
        return config;
    }

    private static byte[] payload(JsonNode request) {
        JsonNode payload = request.get("payload");
        return payload.isNull() ? null : Base64.getDecoder().decode(payload.textValue());
    }

    private Schema schema(JsonNode request) {
        return request.get("schema").isNull() ? null : schemas.asConnectSchema(request.get("schema"));
    }

    private void put(ObjectNode answer, SchemaAndValue converted) {
        Schema schema = converted == null ? null : converted.schema();
        answer.set("schema", schema == null ? NODES.nullNode() : schemas.asJsonSchema(schema));
        answer.set("value", converted == null ? NODES.nullNode() : encode(converted.value()));
    }

    private static void put(ObjectNode answer, byte[] payload) {
        answer.put("payload", payload == null ? null : Base64.getEncoder().encodeToString(payload));
    }

    private static JsonNode encode(Object value) {
        if (value == null) return NODES.nullNode();
        if (value instanceof Boolean) return NODES.textNode("z" + value);
        if (value instanceof Byte) return NODES.textNode("b" + value);
        if (value instanceof Short) return NODES.textNode("s" + value);
        if (value instanceof Integer) return NODES.textNode("i" + value);
        if (value instanceof Long) return NODES.textNode("l" + value);
        if (value instanceof Float number) return NODES.textNode("f" + Float.floatToIntBits(number));
        if (value instanceof Double number) return NODES.textNode("d" + Double.doubleToLongBits(number));
        if (value instanceof String) return NODES.textNode("t" + value);
        if (value instanceof byte[] bytes) return NODES.textNode("x" + Base64.getEncoder().encodeToString(bytes));
        if (value instanceof BigDecimal number) return NODES.textNode("D" + number.unscaledValue() + " " + number.scale());
        if (value instanceof Date date) return NODES.textNode("T" + date.getTime());
        ArrayNode list = NODES.arrayNode();
        if (value instanceof List<?> elements) {
            list.add("L");
            elements.forEach(element -> list.add(encode(element)));
        } else if (value instanceof Map<?, ?> map) {
            list.add("M");
            map.forEach((key, member) -> list.add(NODES.arrayNode().add(encode(key)).add(encode(member))));
        } else if (value instanceof Struct struct) {
            list.add("S");
            for (Field field : struct.schema().fields()) list.add(encode(struct.getWithoutDefault(field.name())));
        } else {
            throw new IllegalArgumentException(value.getClass().getName());
        }
        return list;
    }

    private static Object decode(Schema schema, JsonNode node) {
        if (node.isNull()) return null;
        if (node.isTextual()) {
            String text = node.textValue().substring(1);
            return switch (node.textValue().charAt(0)) {
                case 'z' -> Boolean.valueOf(text);
                case 'b' -> Byte.valueOf(text);
                case 's' -> Short.valueOf(text);
                case 'i' -> Integer.valueOf(text);
                case 'l' -> Long.valueOf(text);
                case 'f' -> Float.intBitsToFloat(Integer.parseInt(text));
                case 'd' -> Double.longBitsToDouble(Long.parseLong(text));
                case 't' -> text;
                case 'x' -> Base64.getDecoder().decode(text);
                case 'D' -> new BigDecimal(new BigInteger(text.split(" ")[0]), Integer.parseInt(text.split(" ")[1]));
                case 'T' -> new Date(Long.parseLong(text));
                default -> throw new IllegalArgumentException(node.textValue());
            };
        }
        switch (node.get(0).textValue()) {
            case "L" -> {
                List<Object> list = new ArrayList<>();
                for (int i = 1; i < node.size(); i++) list.add(decode(schema == null ? null : schema.valueSchema(), node.get(i)));
                return list;
            }
            case "M" -> {
                Map<Object, Object> map = new HashMap<>();
                for (int i = 1; i < node.size(); i++) {
                    Object key = decode(schema == null ? null : schema.keySchema(), node.get(i).get(0));
                    map.put(key, decode(schema == null ? null : schema.valueSchema(), node.get(i).get(1)));
                }
                return map;
            }
            default -> {
                Struct struct = new Struct(schema);
                int place = 1;
                for (Field field : schema.fields()) {
                    Object member = decode(field.schema(), node.get(place++));
                    if (member != null) struct.put(field, member);
                }
                return struct;
            }
        }
    }
}
