import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Base64;
import java.util.Collections;
import java.util.Enumeration;
import java.util.List;
import javax.jms.BytesMessage;
import javax.jms.Connection;
import javax.jms.DeliveryMode;
import javax.jms.JMSException;
import javax.jms.MapMessage;
import javax.jms.Message;
import javax.jms.MessageConsumer;
import javax.jms.MessageEOFException;
import javax.jms.MessageProducer;
import javax.jms.ObjectMessage;
import javax.jms.Session;
import javax.jms.StreamMessage;
import javax.jms.TextMessage;
import org.apache.activemq.ActiveMQConnectionFactory;
import org.apache.activemq.command.ActiveMQTextMessage;
import org.apache.activemq.util.ByteSequence;

/**
 * A JMS client that knows nothing of the project: it sends what JMS can hold, and says what it reads.
 *
 * <pre>
 * JmsPeer URL kinds QUEUE                   one message of each kind of body, with every header
 * JmsPeer URL wrong QUEUE                   messages that nobody should have sent
 * JmsPeer URL flood QUEUE COUNT COPIES      messages with a uuid; COPIES of them are sent again
 * JmsPeer URL read QUEUE COUNT              so many messages, as lines of "field TAB type TAB value"
 * </pre>
 */
public final class JmsPeer {
    private static final int TOGETHER = 100;
    private static final long PATIENCE = 20_000;

    private final Session session;

    private JmsPeer(Session session) {
        this.session = session;
    }

    public static void main(String[] words) throws JMSException {
        Connection connection = new ActiveMQConnectionFactory(words[0]).createConnection();
        try {
            connection.start();
            Session session = connection.createSession(true, Session.SESSION_TRANSACTED);
            new JmsPeer(session).work(words);
            session.commit();
        } finally {
            connection.close();
        }
    }

    private void work(String[] words) throws JMSException {
        switch (words[1]) {
            case "kinds" -> sendKinds(words[2]);
            case "wrong" -> sendWrong(words[2]);
            case "flood" -> flood(words[2], Integer.parseInt(words[3]), Integer.parseInt(words[4]));
            case "read" -> read(words[2], Integer.parseInt(words[3]));
            default -> throw new IllegalArgumentException(words[1]);
        }
    }

    private void sendKinds(String queue) throws JMSException {
        TextMessage text = session.createTextMessage("gr\u00fc\u00dfe \u2603");
        BytesMessage bytes = session.createBytesMessage();
        bytes.writeBytes(new byte[] {0, -1, 65});
        MapMessage map = session.createMapMessage();
        map.setString("id", "order 17");
        map.setInt("pieces", 5);
        map.setLong("cents", 1L << 40);
        map.setDouble("rate", 0.5);
        map.setBoolean("paid", true);
        map.setChar("grade", 'A');
        map.setBytes("seal", new byte[] {1, 2});
        map.setObject("nothing", null);
        StreamMessage stream = session.createStreamMessage();
        stream.writeString("first");
        stream.writeShort((short) 7);
        stream.writeFloat(1.5f);
        stream.writeBoolean(false);
        stream.writeBytes(new byte[] {3});
        Message bare = session.createMessage();
        for (Message message : List.of(text, bytes, map, stream, bare)) {
            sendDressed(queue, message);
        }
    }

    private void sendDressed(String queue, Message message) throws JMSException {
        message.setStringProperty("uuid", "java " + message.getClass().getSimpleName());
        message.setBooleanProperty("yes", true);
        message.setByteProperty("byte", (byte) 8);
        message.setShortProperty("short", (short) 16);
        message.setIntProperty("int", 32);
        message.setLongProperty("long", 1L << 62);
        message.setFloatProperty("float", 0.25f);
        message.setDoubleProperty("double", 3.0);
        message.setStringProperty("text", "\u00e9t\u00e9");
        message.setStringProperty("JMSXGroupID", "customer 5");
        message.setIntProperty("JMSXGroupSeq", 3);
        message.setJMSCorrelationID("correlation");
        message.setJMSType("order.created");
        message.setJMSReplyTo(session.createTopic("answers"));
        MessageProducer producer = session.createProducer(session.createQueue(queue));
        producer.send(message, DeliveryMode.NON_PERSISTENT, 7, 3_600_000);
    }

    private void sendWrong(String queue) throws JMSException {
        MessageProducer producer = session.createProducer(session.createQueue(queue));
        producer.send(session.createObjectMessage(new ArrayList<>(List.of("gadget"))));
        TextMessage identity = session.createTextMessage("its uuid is no identity");
        identity.setBooleanProperty("uuid", true);
        producer.send(identity);
        TextMessage json = session.createTextMessage("{");
        json.setStringProperty("jms_body", "json");
        producer.send(json);
        ActiveMQTextMessage broken = new ActiveMQTextMessage();
        broken.setContent(new ByteSequence(new byte[] {0, 0, 1, 0, 65}));
        producer.send(broken);
        producer.send(session.createTextMessage("a good one"));
    }

    private void flood(String queue, int count, int copies) throws JMSException {
        MessageProducer producer = session.createProducer(session.createQueue(queue));
        for (int sent = 0; sent < count + copies; sent++) {
            // Copies follow their originals at many distances.
            int number = sent < count ? sent : (sent - count) * (count / Math.max(1, copies));
            TextMessage message = session.createTextMessage("{\"id\": " + number + "}");
            message.setStringProperty("uuid", "order-" + number);
            producer.send(message);
            if (sent % TOGETHER == TOGETHER - 1) {
                session.commit();
            }
        }
    }

    private void read(String queue, int count) throws JMSException {
        MessageConsumer consumer = session.createConsumer(session.createQueue(queue));
        for (int number = 0; number < count; number++) {
            Message message = consumer.receive(PATIENCE);
            if (message == null) {
                throw new JMSException("only " + number + " messages came");
            }
            tell("message", message.getClass().getSimpleName());
            tell("JMSCorrelationID", message.getJMSCorrelationID());
            tell("JMSType", message.getJMSType());
            tell("JMSReplyTo", message.getJMSReplyTo());
            tell("JMSPriority", message.getJMSPriority());
            tell("JMSDeliveryMode", message.getJMSDeliveryMode());
            tell("expires", message.getJMSExpiration() > System.currentTimeMillis());
            for (Object name : Collections.list((Enumeration<?>) message.getPropertyNames())) {
                tell("property " + name, message.getObjectProperty((String) name));
            }
            tellBody(message);
        }
    }

    private static void tellBody(Message message) throws JMSException {
        if (message instanceof TextMessage text) {
            tell("body", text.getText());
        } else if (message instanceof BytesMessage bytes) {
            byte[] content = new byte[(int) bytes.getBodyLength()];
            bytes.readBytes(content);
            tell("body", content);
        } else if (message instanceof MapMessage map) {
            for (Object name : Collections.list((Enumeration<?>) map.getMapNames())) {
                tell("body " + name, map.getObject((String) name));
            }
        } else if (message instanceof StreamMessage stream) {
            try {
                for (int place = 0; ; place++) {
                    tell("body " + place, stream.readObject());
                }
            } catch (MessageEOFException end) {
                return;
            }
        } else if (message instanceof ObjectMessage object) {
            tell("body", object.getClass().getSimpleName());
        }
    }

    private static void tell(String field, Object value) {
        String type = value == null ? "null" : value.getClass().getSimpleName();
        String shown = value instanceof byte[] bytes ? Base64.getEncoder().encodeToString(bytes) : "" + value;
        byte[] line = (field + "\t" + type + "\t" + shown + "\n").getBytes(StandardCharsets.UTF_8);
        System.out.write(line, 0, line.length);
        System.out.flush();
    }
}
