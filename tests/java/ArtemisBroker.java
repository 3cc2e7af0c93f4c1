import org.apache.activemq.artemis.core.server.embedded.EmbeddedActiveMQ;

/** Runs an Artemis broker with the configuration at a URL, until the process is ended. */
public class ArtemisBroker {
    public static void main(String[] arguments) throws Exception {
        EmbeddedActiveMQ broker = new EmbeddedActiveMQ();
        broker.setConfigResourcePath(arguments[0]);
        broker.start();
        Thread.currentThread().join();
    }
}
