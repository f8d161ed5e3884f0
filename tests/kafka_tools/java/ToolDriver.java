import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import org.apache.kafka.common.utils.Exit;

/**
 * Runs Apache Kafka's command line tools, one after the other, in one JVM. A request is a line with a JSON array: the
 * main class and its arguments. The answer is a line with the exit code and everything that the tool printed.
 */
public final class ToolDriver {
    private static final ObjectMapper JSON = new ObjectMapper();

    private static final ByteArrayOutputStream PRINTED = new ByteArrayOutputStream();

    private static ObjectNode answer;

    public static void main(String[] arguments) throws Exception {
        PrintStream answers = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        // Replaced once, before any tool is loaded: some keep the stream that they find first.
        PrintStream output = new PrintStream(PRINTED, true, StandardCharsets.UTF_8);
        System.setOut(output);
        System.setErr(output);
        Exit.setExitProcedure((code, message) -> {
            ended(code);
            throw new IllegalStateException("a tool ends here");
        });
        BufferedReader requests = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = requests.readLine(); line != null; line = requests.readLine()) {
            JsonNode words = JSON.readTree(line);
            answer = null;
            PRINTED.reset();
            run(words);
            ended(0);
            answers.println(answer);
        }
        // A tool may have left threads behind.
        Runtime.getRuntime().halt(0);
    }

    private static void run(JsonNode words) throws Exception {
        String[] arguments = new String[words.size() - 1];
        for (int each = 0; each < arguments.length; each++) {
            arguments[each] = words.get(each + 1).asText();
        }
        try {
            Class.forName(words.get(0).asText()).getMethod("main", String[].class).invoke(null, (Object) arguments);
        } catch (InvocationTargetException failed) {
            if (answer == null) {
                failed.getCause().printStackTrace();
                ended(1);
            }
        }
    }

    /** The first end counts: a tool may catch what stands for its exit, print it and exit once more. */
    private static void ended(int code) {
        if (answer == null) {
            answer = JSON.createObjectNode();
            answer.put("code", code);
            answer.put("output", PRINTED.toString(StandardCharsets.UTF_8));
        }
    }
}
