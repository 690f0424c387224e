import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.PrintStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import kafka.server.KafkaConfig;
import kafka.server.KafkaRaftServer;
import kafka.tools.StorageTool;
import org.apache.kafka.common.utils.Time;

/**
 * Runs the brokers whose folders are the arguments, all in this process.
 *
 * <p>A folder holds {@code server.properties} and {@code cluster-id}. The file {@code ready} appears in it when its broker
 * takes requests. With {@code --once} as the first argument the process ends when all have started: that run records
 * which classes a broker loads.
 */
public final class BrokerProcess {
    private final Path folder;
    private KafkaRaftServer server;

    private BrokerProcess(Path folder) {
        this.folder = folder;
    }

    public static void main(String[] args) {
        boolean once = args.length > 0 && args[0].equals("--once");
        List<BrokerProcess> brokers = new ArrayList<>();
        for (int i = once ? 1 : 0; i < args.length; i++) {
            brokers.add(new BrokerProcess(Path.of(args[i])));
        }
        // Side by side: a broker of a larger cluster is ready only when most of the others are.
        List<CompletableFuture<Void>> starts = new ArrayList<>();
        for (BrokerProcess broker : brokers) {
            starts.add(onThread(broker::start));
        }
        try {
            starts.forEach(CompletableFuture::join);
        } catch (CompletionException e) {
            e.getCause().printStackTrace();
            // Not `exit`: the hooks of half-started brokers would wait for what never comes.
            Runtime.getRuntime().halt(1);
        }
        Runtime.getRuntime().addShutdownHook(new Thread(() -> stopAll(brokers)));
        if (once) {
            System.exit(0);
        }
    }

    private static CompletableFuture<Void> onThread(Step step) {
        CompletableFuture<Void> done = new CompletableFuture<>();
        new Thread(() -> {
            try {
                step.run();
                done.complete(null);
            } catch (Throwable e) {
                done.completeExceptionally(e);
            }
        }).start();
        return done;
    }

    private static void stopAll(List<BrokerProcess> brokers) {
        List<CompletableFuture<Void>> stops = new ArrayList<>();
        for (BrokerProcess broker : brokers) {
            stops.add(onThread(broker::stop));
        }
        stops.forEach(CompletableFuture::join);
    }

    private void start() throws IOException {
        Path file = folder.resolve("server.properties");
        formatStorage(file, Files.readString(folder.resolve("cluster-id")).trim());
        Properties properties = new Properties();
        try (InputStream in = Files.newInputStream(file)) {
            properties.load(in);
        }
        server = new KafkaRaftServer(KafkaConfig.fromProps(properties), Time.SYSTEM);
        server.startup();
        Files.writeString(folder.resolve("ready"), "");
    }

    private static void formatStorage(Path properties, String clusterId) throws IOException {
        String[] command = {
            // With the equals sign, since an id can begin with a dash.
            "format", "--ignore-formatted", "--cluster-id=" + clusterId, "--config", properties.toString()
        };
        ByteArrayOutputStream said = new ByteArrayOutputStream();
        if (StorageTool.execute(command, new PrintStream(said)) != 0) {
            throw new IOException("the storage could not be formatted: " + said);
        }
    }

    private void stop() {
        server.shutdown();
        server.awaitShutdown();
    }

    private interface Step {
        void run() throws Exception;
    }
}
