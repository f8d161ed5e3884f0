import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.connect.connector.ConnectRecord;
import org.apache.kafka.connect.data.Date;
import org.apache.kafka.connect.data.Decimal;
import org.apache.kafka.connect.data.Field;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.data.SchemaBuilder;
import org.apache.kafka.connect.data.Struct;
import org.apache.kafka.connect.data.Time;
import org.apache.kafka.connect.data.Timestamp;
import org.apache.kafka.connect.header.Header;
import org.apache.kafka.connect.sink.SinkRecord;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.transforms.Transformation;
import org.apache.kafka.connect.transforms.predicates.Predicate;

/**
 * Runs Kafka's own transforms: a request of JSON on each line of the input, an answer on each line of the output.
 * Values travel in the base type of their schema, floating-point numbers as the bits of a double. Values without a schema name their Java type.
 */
public final class TransformDriver {
    private static final JsonNodeFactory JSON = JsonNodeFactory.instance;
    private static final ObjectMapper MAPPER = new ObjectMapper();

    public static void main(String[] arguments) throws Exception {
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream output = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            ObjectNode answer;
            try {
                answer = answer(MAPPER.readTree(line));
            } catch (Exception error) {
                StringWriter trace = new StringWriter();
                error.printStackTrace(new PrintWriter(trace));
                answer = JSON.objectNode().put("broken", trace.toString());
            }
            output.println(MAPPER.writeValueAsString(answer));
            output.flush();
        }
    }

    @SuppressWarnings({"unchecked", "rawtypes"})
    private static ObjectNode answer(JsonNode request) throws Exception {
        Map<String, Object> config = new HashMap<>();
        request.get("config").fields().forEachRemaining(each -> config.put(each.getKey(), each.getValue().textValue()));
        Object plugin = Class.forName(request.get("class").textValue()).getDeclaredConstructor().newInstance();
        ObjectNode answer = JSON.objectNode();
        if (request.has("definition")) {
            answer.set("definition", definition(
                plugin instanceof Predicate ? ((Predicate<?>) plugin).config() : ((Transformation<?>) plugin).config()));
            return answer;
        }
        try {
            if (plugin instanceof Predicate) {
                ((Predicate<?>) plugin).configure(config);
            } else {
                ((Transformation<?>) plugin).configure(config);
            }
        } catch (Exception error) {
            answer.set("refused", failure(error));
            return answer;
        }
        ArrayNode results = answer.putArray("results");
        for (JsonNode each : request.get("records")) {
            ConnectRecord<?> record = record(each);
            ConnectRecord<?> transformed;
            try {
                if (plugin instanceof Predicate) {
                    results.add(((Predicate) plugin).test(record));
                    continue;
                }
                transformed = (ConnectRecord<?>) ((Transformation) plugin).apply(record);
            } catch (Exception error) {
                results.add(failure(error));
                continue;
            }
            results.add(encode(transformed));
        }
        return answer;
    }

    private static ArrayNode definition(ConfigDef definition) {
        ArrayNode keys = JSON.arrayNode();
        for (String name : definition.names()) {
            ConfigDef.ConfigKey key = definition.configKeys().get(name);
            ObjectNode json = keys.addObject().put("name", name).put("type", key.type.name());
            json.put("importance", key.importance.name()).put("required", !key.hasDefault());
            json.put("default", key.hasDefault() ? ConfigDef.convertToString(key.defaultValue, key.type) : null);
        }
        return keys;
    }

    private static ObjectNode failure(Exception error) {
        return JSON.objectNode().put("error", error.getClass().getName()).put("message", error.getMessage());
    }

    private static ConnectRecord<?> record(JsonNode json) {
        Schema keySchema = schema(json.get("key_schema"));
        Object key = keySchema == null ? plain(json.get("key")) : value(keySchema, json.get("key"));
        Schema valueSchema = schema(json.get("value_schema"));
        Object value = valueSchema == null ? plain(json.get("value")) : value(valueSchema, json.get("value"));
        Integer partition = json.get("partition").isNull() ? null : json.get("partition").intValue();
        Long timestamp = json.get("timestamp").isNull() ? null : json.get("timestamp").longValue();
        String topic = json.get("topic").textValue();
        ConnectRecord<?> record = json.get("offset").isNull()
            ? new SourceRecord(Map.of(), Map.of(), topic, partition, keySchema, key, valueSchema, value, timestamp)
            : new SinkRecord(topic, partition, keySchema, key, valueSchema, value, json.get("offset").longValue(),
                timestamp, TimestampType.CREATE_TIME);
        for (JsonNode header : json.get("headers")) {
            Schema headerSchema = schema(header.get("schema"));
            Object headerValue =
                headerSchema == null ? plain(header.get("value")) : value(headerSchema, header.get("value"));
            record.headers().add(header.get("name").textValue(), headerValue, headerSchema);
        }
        return record;
    }

    private static JsonNode encode(ConnectRecord<?> record) {
        if (record == null) {
            return JSON.nullNode();
        }
        ObjectNode json = JSON.objectNode();
        json.put("topic", record.topic());
        json.put("partition", record.kafkaPartition());
        json.put("timestamp", record.timestamp());
        json.set("key_schema", encode(record.keySchema()));
        json.set("key", encode(record.keySchema(), record.key()));
        json.set("value_schema", encode(record.valueSchema()));
        json.set("value", encode(record.valueSchema(), record.value()));
        ArrayNode headers = json.putArray("headers");
        for (Header header : record.headers()) {
            ObjectNode each = headers.addObject().put("name", header.key());
            each.set("schema", encode(header.schema()));
            each.set("value", encode(header.schema(), header.value()));
        }
        return json;
    }

    private static Schema schema(JsonNode json) {
        if (json.isNull()) {
            return null;
        }
        Schema.Type type = Schema.Type.valueOf(json.get("type").textValue());
        SchemaBuilder builder;
        if (type == Schema.Type.ARRAY) {
            builder = SchemaBuilder.array(schema(json.get("value")));
        } else if (type == Schema.Type.MAP) {
            builder = SchemaBuilder.map(schema(json.get("key")), schema(json.get("value")));
        } else {
            builder = SchemaBuilder.type(type);
        }
        for (JsonNode field : json.get("fields")) {
            builder.field(field.get("name").textValue(), schema(field.get("schema")));
        }
        if (!json.get("name").isNull()) {
            builder.name(json.get("name").textValue());
        }
        if (!json.get("version").isNull()) {
            builder.version(json.get("version").intValue());
        }
        if (!json.get("doc").isNull()) {
            builder.doc(json.get("doc").textValue());
        }
        json.get("parameters").fields().forEachRemaining(
            each -> builder.parameter(each.getKey(), each.getValue().textValue()));
        if (json.get("optional").booleanValue()) {
            builder.optional();
        }
        if (!json.get("default").isNull()) {
            builder.defaultValue(value(builder, json.get("default")));
        }
        return builder.build();
    }

    private static JsonNode encode(Schema schema) {
        if (schema == null) {
            return JSON.nullNode();
        }
        ObjectNode json = JSON.objectNode();
        json.put("type", schema.type().name());
        json.put("optional", schema.isOptional());
        json.put("name", schema.name());
        json.put("version", schema.version());
        json.put("doc", schema.doc());
        ObjectNode parameters = json.putObject("parameters");
        if (schema.parameters() != null) {
            schema.parameters().forEach(parameters::put);
        }
        json.set("default", schema.defaultValue() == null ? JSON.nullNode() : encode(schema, schema.defaultValue()));
        ArrayNode fields = json.putArray("fields");
        if (schema.type() == Schema.Type.STRUCT) {
            for (Field field : schema.fields()) {
                fields.addObject().put("name", field.name()).set("schema", encode(field.schema()));
            }
        }
        boolean isMap = schema.type() == Schema.Type.MAP;
        json.set("key", isMap ? encode(schema.keySchema()) : JSON.nullNode());
        json.set("value", isMap || schema.type() == Schema.Type.ARRAY ? encode(schema.valueSchema()) : JSON.nullNode());
        return json;
    }

    private static Object value(Schema schema, JsonNode json) {
        if (json == null || json.isNull()) {
            return null;
        }
        if (schema.name() != null) {
            switch (schema.name()) {
                case Date.LOGICAL_NAME:
                    return Date.toLogical(schema, json.intValue());
                case Time.LOGICAL_NAME:
                    return Time.toLogical(schema, json.intValue());
                case Timestamp.LOGICAL_NAME:
                    return Timestamp.toLogical(schema, json.longValue());
                case Decimal.LOGICAL_NAME:
                    return Decimal.toLogical(schema, Base64.getDecoder().decode(json.textValue()));
                default:
            }
        }
        switch (schema.type()) {
            case INT8:
                return (byte) json.intValue();
            case INT16:
                return (short) json.intValue();
            case INT32:
                return json.intValue();
            case INT64:
                return json.longValue();
            case FLOAT32:
                return (float) Double.longBitsToDouble(json.longValue());
            case FLOAT64:
                return Double.longBitsToDouble(json.longValue());
            case BOOLEAN:
                return json.booleanValue();
            case STRING:
                return json.textValue();
            case BYTES:
                return Base64.getDecoder().decode(json.textValue());
            case ARRAY:
                List<Object> elements = new ArrayList<>();
                json.forEach(each -> elements.add(value(schema.valueSchema(), each)));
                return elements;
            case MAP:
                Map<Object, Object> entries = new HashMap<>();
                json.forEach(pair -> entries.put(
                    value(schema.keySchema(), pair.get(0)), value(schema.valueSchema(), pair.get(1))));
                return entries;
            default:
                Struct struct = new Struct(schema);
                for (Field field : schema.fields()) {
                    Object member = value(field.schema(), json.get(field.name()));
                    // A required field with a default stays unset, which `put` would refuse.
                    if (member != null) {
                        struct.put(field, member);
                    }
                }
                return struct;
        }
    }

    private static Object plain(JsonNode json) {
        if (json.isNull()) {
            return null;
        }
        JsonNode value = json.get("value");
        switch (json.get("java").textValue()) {
            case "Byte":
                return (byte) value.intValue();
            case "Short":
                return (short) value.intValue();
            case "Integer":
                return value.intValue();
            case "Long":
                return value.longValue();
            case "Float":
                return (float) Double.longBitsToDouble(value.longValue());
            case "Double":
                return Double.longBitsToDouble(value.longValue());
            case "Boolean":
                return value.booleanValue();
            case "String":
                return value.textValue();
            case "bytes":
                return Base64.getDecoder().decode(value.textValue());
            case "Date":
                return new java.util.Date(value.longValue());
            case "List":
                List<Object> elements = new ArrayList<>();
                value.forEach(each -> elements.add(plain(each)));
                return elements;
            case "Map":
                Map<String, Object> entries = new HashMap<>();
                value.fields().forEachRemaining(each -> entries.put(each.getKey(), plain(each.getValue())));
                return entries;
            default:
                throw new IllegalArgumentException(json.toString());
        }
    }

    private static JsonNode encode(Schema schema, Object value) {
        if (value == null) {
            return JSON.nullNode();
        }
        if (schema == null) {
            return encodePlain(value);
        }
        if (value instanceof java.util.Date) {
            java.util.Date date = (java.util.Date) value;
            switch (schema.name()) {
                case Date.LOGICAL_NAME:
                    return JSON.numberNode(Date.fromLogical(schema, date));
                case Time.LOGICAL_NAME:
                    return JSON.numberNode(Time.fromLogical(schema, date));
                default:
                    return JSON.numberNode(date.getTime());
            }
        }
        if (value instanceof BigDecimal) {
            int scale = Integer.parseInt(schema.parameters().get(Decimal.SCALE_FIELD));
            BigInteger unscaled = ((BigDecimal) value).setScale(scale).unscaledValue();
            return JSON.textNode(Base64.getEncoder().encodeToString(unscaled.toByteArray()));
        }
        if (value instanceof Struct) {
            ObjectNode json = JSON.objectNode();
            for (Field field : ((Struct) value).schema().fields()) {
                Object member = ((Struct) value).getWithoutDefault(field.name());
                json.set(field.name(), encode(field.schema(), member));
            }
            return json;
        }
        if (value instanceof List) {
            ArrayNode json = JSON.arrayNode();
            ((List<?>) value).forEach(each -> json.add(encode(schema.valueSchema(), each)));
            return json;
        }
        if (value instanceof Map) {
            ArrayNode json = JSON.arrayNode();
            ((Map<?, ?>) value).forEach((key, each) ->
                json.addArray().add(encode(schema.keySchema(), key)).add(encode(schema.valueSchema(), each)));
            return json;
        }
        return scalar(value);
    }

    private static JsonNode encodePlain(Object value) {
        if (value == null) {
            return JSON.nullNode();
        }
        ObjectNode json = JSON.objectNode();
        if (value instanceof Map) {
            ObjectNode entries = JSON.objectNode();
            ((Map<?, ?>) value).forEach((key, each) -> entries.set((String) key, encodePlain(each)));
            json.put("java", "Map").set("value", entries);
        } else if (value instanceof List) {
            ArrayNode elements = JSON.arrayNode();
            ((List<?>) value).forEach(each -> elements.add(encodePlain(each)));
            json.put("java", "List").set("value", elements);
        } else if (value instanceof java.util.Date) {
            json.put("java", "Date").put("value", ((java.util.Date) value).getTime());
        } else {
            String name = value instanceof byte[] ? "bytes" : value.getClass().getSimpleName();
            json.put("java", name).set("value", scalar(value));
        }
        return json;
    }

    private static JsonNode scalar(Object value) {
        if (value instanceof String) {
            return JSON.textNode((String) value);
        } else if (value instanceof Boolean) {
            return JSON.booleanNode((Boolean) value);
        } else if (value instanceof byte[]) {
            return JSON.textNode(Base64.getEncoder().encodeToString((byte[]) value));
        } else if (value instanceof ByteBuffer) {
            return JSON.textNode(Base64.getEncoder().encodeToString(((ByteBuffer) value).array()));
        } else if (value instanceof Float || value instanceof Double) {
            return JSON.numberNode(Double.doubleToLongBits(((Number) value).doubleValue()));
        }
        return JSON.numberNode(((Number) value).longValue());
    }
}
