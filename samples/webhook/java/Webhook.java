import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.Executors;
import java.util.concurrent.ThreadLocalRandom;

/**
 * A webhook receiver: each Idempotency-Key is processed once, and every delivery gets the same
 * answer.
 *
 * <p>Needs JDBC and nothing else, so that the event is read by PostgreSQL; ../schema.sql has the
 * table. In a service the pool is HikariCP, and the framework's own JSON is read.
 *
 * <pre>
 * Debian: apt-get install default-jdk-headless libpostgresql-jdbc-java
 * Run:    PGHOST=... PGPORT=... PGDATABASE=... PGUSER=shop PORT=8080 \
 *             java -cp /usr/share/java/postgresql.jar Webhook.java
 * </pre>
 */
public class Webhook {
    static final int ATTEMPTS = 6;

    /**
     * Another attempt may succeed: deadlock, serialization failure, and what exactonce says of keys
     * that are in progress or lost, and of DynamoDB when it does not answer.
     */
    static final Set<String> PASSING = Set.of("40001", "40P01", "ID001", "ID002", "ID006");

    static final BlockingQueue<Connection> idle = new ArrayBlockingQueue<>(8);

    record Claim(String outcome, int httpStatus, String retryAfter, String result) {}

    /** The work. Whatever it does in this transaction is done once. */
    static String takePayment(Connection db, String event) throws SQLException {
        try (PreparedStatement insert = db.prepareStatement(
                "INSERT INTO payments (invoice, amount)"
                + " SELECT (e->>'invoice')::int, (e->>'amount')::int FROM CAST(? AS jsonb) e"
                + " RETURNING jsonb_build_object('receipt', receipt)")) {
            insert.setString(1, event);
            try (ResultSet row = insert.executeQuery()) {
                row.next();
                return row.getString(1);
            }
        }
    }

    /** One attempt, which is one transaction: claim, work, completion. */
    static Claim process(Connection db, String key, String event) throws SQLException {
        Claim claim;
        try (PreparedStatement acquire = db.prepareStatement(
                "SELECT outcome, http_status, retry_after, result"
                + " FROM idem_acquire(?, payload => CAST(? AS jsonb), wait => '5s')")) {
            acquire.setString(1, key);
            acquire.setString(2, event);
            try (ResultSet row = acquire.executeQuery()) {
                row.next();
                claim = new Claim(row.getString(1), row.getInt(2), row.getString(3), row.getString(4));
            }
        }
        if (claim.outcome.equals("acquired")) {
            claim = new Claim(claim.outcome, claim.httpStatus, claim.retryAfter, takePayment(db, event));
            try (PreparedStatement complete = db.prepareStatement("SELECT idem_complete(?, CAST(? AS jsonb))")) {
                complete.setString(1, key);
                complete.setString(2, claim.result);
                complete.execute();
            }
        }
        db.commit();
        return claim;                           // it has committed: only now may others be told
    }

    /** A connection that cannot even roll back is closed. */
    static Claim processOnce(String key, String event) throws SQLException {
        Connection db = idle.poll();
        if (db == null) {
            db = connect();
        }
        boolean sound = false;
        try {
            Claim claim = process(db, key, event);
            sound = true;
            return claim;
        } catch (SQLException error) {
            try {
                db.rollback();
                sound = true;
            } catch (SQLException lost) {
                error.addSuppressed(lost);
            }
            throw error;
        } finally {
            if (!sound || !idle.offer(db)) {
                db.close();
            }
        }
    }

    /** May the next attempt succeed? Class 08: the connection was lost. */
    static boolean mayPass(SQLException error) {
        String state = error.getSQLState();
        return state == null || PASSING.contains(state) || state.startsWith("08") || state.startsWith("57");
    }

    /** If the connection was lost in COMMIT, the next claim finds out whether it had committed. */
    static Claim processWithRetries(String key, String event) throws SQLException, InterruptedException {
        for (int attempt = 1; ; attempt++) {
            try {
                return processOnce(key, event);
            } catch (SQLException error) {
                if (attempt == ATTEMPTS || !mayPass(error)) {
                    throw error;
                }
                System.err.println("attempt " + attempt + " for " + key + ": " + error.getMessage());
                double share = ThreadLocalRandom.current().nextDouble(0.5, 1);
                Thread.sleep((long) (Math.min(2000, 100 << attempt) * share));
            }
        }
    }

    static void webhook(HttpExchange exchange) throws IOException {
        String key = exchange.getRequestHeaders().getFirst("Idempotency-Key");
        String event = new String(exchange.getRequestBody().readAllBytes(), StandardCharsets.UTF_8);
        if (!exchange.getRequestMethod().equals("POST") || key == null || event.isBlank()) {
            answer(exchange, 400, "{\"error\": \"a header Idempotency-Key and an event are needed\"}");
            return;
        }
        try {
            // With more than one sender, the sender is a part of the key.
            Claim claim = processWithRetries("webhook/" + key, event);
            if (claim.outcome.equals("completed")) {
                exchange.getResponseHeaders().set("Idempotency-Replayed", "true");
            }
            if (claim.retryAfter != null) {
                exchange.getResponseHeaders().set("Retry-After", claim.retryAfter);
            }
            answer(exchange, claim.httpStatus,
                claim.result != null ? claim.result : "{\"error\": \"" + claim.outcome + "\"}");
        } catch (SQLException error) {
            String state = String.valueOf(error.getSQLState());
            if (state.equals("ID003")) {
                answer(exchange, 422, "{\"error\": \"this key was used for another event\"}");
            } else if (state.startsWith("22") || state.startsWith("23")) {
                answer(exchange, 422, "{\"error\": \"this event cannot be processed\"}");
            } else if (mayPass(error)) {
                exchange.getResponseHeaders().set("Retry-After", "5");
                answer(exchange, 503, "{\"error\": \"try again\"}");
            } else {
                error.printStackTrace();
                answer(exchange, 500, "{\"error\": \"for people to look at\"}");
            }
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
            answer(exchange, 503, "{\"error\": \"try again\"}");
        }
    }

    static void answer(HttpExchange exchange, int status, String body) throws IOException {
        byte[] bytes = body.getBytes(StandardCharsets.UTF_8);
        exchange.getResponseHeaders().set("Content-Type", "application/json");
        exchange.sendResponseHeaders(status, bytes.length);
        exchange.getResponseBody().write(bytes);
        exchange.close();
    }

    static Connection connect() throws SQLException {
        Map<String, String> env = System.getenv();
        Properties properties = new Properties();
        properties.setProperty("user", env.getOrDefault("PGUSER", "shop"));
        if (env.containsKey("PGPASSWORD")) {
            properties.setProperty("password", env.get("PGPASSWORD"));
        }
        Connection db = DriverManager.getConnection("jdbc:postgresql://" + env.getOrDefault("PGHOST", "localhost")
            + ":" + env.getOrDefault("PGPORT", "5432") + "/" + env.get("PGDATABASE"), properties);
        db.setAutoCommit(false);
        return db;
    }

    public static void main(String[] args) throws IOException {
        int port = Integer.parseInt(System.getenv().getOrDefault("PORT", "8080"));
        HttpServer server = HttpServer.create(new InetSocketAddress("127.0.0.1", port), 0);
        server.setExecutor(Executors.newFixedThreadPool(8));
        server.createContext("/webhook", Webhook::webhook);
        server.start();
    }
}
