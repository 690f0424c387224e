import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.errors.UnknownTopicOrPartitionException;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Creates a topic, or writes records: {@code topic SERVERS NAME PARTITIONS} or {@code produce SERVERS TOPIC}.
 *
 * <p>Each line of standard input is the value of a record, after its key and a tab if it has one. What goes wrong is one
 * line on standard error, and status 1.
 */
public final class ClusterClient {
    private ClusterClient() {}

    public static void main(String[] args) throws InterruptedException, IOException {
        try {
            switch (args[0]) {
                case "topic" -> create(args[1], args[2], Integer.parseInt(args[3]));
                case "produce" -> produce(args[1], args[2]);
                default -> throw new IllegalArgumentException(args[0]);
            }
        } catch (ExecutionException e) {
            System.err.println(e.getCause() instanceof UnknownTopicOrPartitionException
                    ? "it does not exist; 'scripts/kafka topic' creates it" : e.getCause().getMessage());
            System.exit(1);
        }
    }

    private static Admin admin(String servers) {
        return Admin.create(Map.of("bootstrap.servers", servers, "default.api.timeout.ms", "10000",
                "request.timeout.ms", "10000"));
    }

    private static void create(String servers, String name, int partitions)
            throws ExecutionException, InterruptedException {
        try (Admin admin = admin(servers)) {
            NewTopic topic = new NewTopic(name, Optional.of(partitions), Optional.empty());
            admin.createTopics(List.of(topic)).all().get();
        }
    }

    private static void produce(String servers, String topic)
            throws ExecutionException, InterruptedException, IOException {
        try (Admin admin = admin(servers)) {
            // A producer would wait a minute for a topic that does not exist.
            admin.describeTopics(List.of(topic)).allTopicNames().get();
        }
        AtomicReference<Exception> failure = new AtomicReference<>();
        Map<String, Object> settings = Map.of("bootstrap.servers", servers);
        try (KafkaProducer<byte[], byte[]> producer =
                new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer())) {
            // A character a byte: what is no UTF-8 is written as it is.
            BufferedReader lines =
                    new BufferedReader(new InputStreamReader(System.in, StandardCharsets.ISO_8859_1));
            for (String line = lines.readLine(); line != null && failure.get() == null; line = lines.readLine()) {
                int tab = line.indexOf('\t');
                byte[] key = tab < 0 ? null : line.substring(0, tab).getBytes(StandardCharsets.ISO_8859_1);
                byte[] value = line.substring(tab + 1).getBytes(StandardCharsets.ISO_8859_1);
                producer.send(new ProducerRecord<>(topic, key, value), (written, e) -> {
                    if (e != null) {
                        failure.compareAndSet(null, e);
                    }
                });
            }
            producer.flush();
        }
        if (failure.get() != null) {
            throw new ExecutionException(failure.get());
        }
    }
}
