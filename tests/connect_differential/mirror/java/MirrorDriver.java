package org.apache.kafka.connect.mirror;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.Map;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.Configurable;
import org.apache.kafka.common.TopicPartition;

/** MirrorMaker 2's record formats and names of topics. One request a line, its fields separated by tabs. */
public final class MirrorDriver {
    private static final HexFormat HEX = HexFormat.of();

    public static void main(String[] arguments) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            out.println(answer(line.split("\t", -1)));
        }
    }

    private static String answer(String[] request) throws Exception {
        switch (request[0]) {
            case "encode sync": {
                OffsetSync sync = new OffsetSync(partition(request, 1), number(request[3]), number(request[4]));
                return record(sync.recordKey(), sync.recordValue());
            }
            case "encode checkpoint": {
                Checkpoint checkpoint = new Checkpoint(
                    request[1], partition(request, 2), number(request[4]), number(request[5]), request[6]);
                return record(checkpoint.recordKey(), checkpoint.recordValue());
            }
            case "encode heartbeat": {
                Heartbeat heartbeat = new Heartbeat(request[1], request[2], number(request[3]));
                return record(heartbeat.recordKey(), heartbeat.recordValue());
            }
            case "decode sync": {
                OffsetSync sync = OffsetSync.deserializeRecord(consumed(request));
                return fields(sync.topicPartition().topic(), sync.topicPartition().partition(), sync.upstreamOffset(),
                    sync.downstreamOffset());
            }
            case "decode checkpoint": {
                Checkpoint checkpoint = Checkpoint.deserializeRecord(consumed(request));
                return fields(checkpoint.consumerGroupId(), checkpoint.topicPartition().topic(),
                    checkpoint.topicPartition().partition(), checkpoint.upstreamOffset(),
                    checkpoint.downstreamOffset(), checkpoint.metadata());
            }
            case "decode heartbeat": {
                Heartbeat heartbeat = Heartbeat.deserializeRecord(consumed(request));
                return fields(heartbeat.sourceClusterAlias(), heartbeat.targetClusterAlias(), heartbeat.timestamp());
            }
            case "names": {
                ReplicationPolicy policy =
                    (ReplicationPolicy) Class.forName(request[1]).getDeclaredConstructor().newInstance();
                ((Configurable) policy).configure(Map.of(
                    "source.cluster.alias", request[2],
                    "replication.policy.separator", request[3],
                    "replication.policy.internal.topic.separator.enabled", request[4]));
                String topic = request[5];
                return fields(policy.formatRemoteTopic(request[2], topic), policy.topicSource(topic),
                    policy.upstreamTopic(topic), policy.isInternalTopic(topic), policy.isHeartbeatsTopic(topic),
                    policy.offsetSyncsTopic(request[2]), policy.checkpointsTopic(request[2]));
            }
            case "translate": {
                Map<String, Object> cluster = Map.of("bootstrap.servers", request[1]);
                Duration patience = Duration.ofSeconds(120);
                return RemoteClusterUtils.translateOffsets(cluster, request[2], request[3], patience).entrySet().stream()
                    .map(each -> each.getKey() + "=" + each.getValue().offset() + each.getValue().metadata())
                    .sorted().collect(Collectors.joining("\t"));
            }
            case "upstream clusters": {
                Map<String, Object> cluster = Map.of("bootstrap.servers", request[1]);
                return RemoteClusterUtils.upstreamClusters(cluster).stream().sorted().collect(Collectors.joining("\t"));
            }
            default:
                throw new IllegalArgumentException(request[0]);
        }
    }

    private static TopicPartition partition(String[] request, int at) {
        return new TopicPartition(request[at], Integer.parseInt(request[at + 1]));
    }

    private static long number(String text) {
        return Long.parseLong(text);
    }

    private static ConsumerRecord<byte[], byte[]> consumed(String[] request) {
        return new ConsumerRecord<>("topic", 0, 0, HEX.parseHex(request[1]), HEX.parseHex(request[2]));
    }

    private static String record(byte[] key, byte[] value) {
        return HEX.formatHex(key) + "\t" + HEX.formatHex(value);
    }

    private static String fields(Object... values) {
        return Arrays.stream(values).map(String::valueOf).collect(Collectors.joining("\t"));
    }
}
