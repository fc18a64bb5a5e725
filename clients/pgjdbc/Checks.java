import java.math.BigDecimal;
import java.sql.BatchUpdateException;
import java.sql.Connection;
import java.sql.DatabaseMetaData;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.sql.Timestamp;
import java.util.ArrayList;
import java.util.List;
import java.util.regex.Pattern;
import org.postgresql.PGConnection;
import org.postgresql.copy.CopyManager;

/** pgJDBC: prepared statements before and after they get a name, batches, fetch sizes, savepoints, COPY, metadata. */
public class Checks {
    static final Pattern UNSUPPORTED = Pattern.compile("\\b(pg_[a-z]+|information_schema)\\b|is not supported");
    static String last = "";

    interface Check {
        void run(Connection connection) throws Exception;
    }

    static Connection connect(String options) throws SQLException {
        String url = "jdbc:postgresql://" + System.getenv("PGHOST") + ":" + System.getenv("PGPORT") + "/"
                + System.getenv("PGDATABASE") + "?user=" + System.getenv("PGUSER") + options;
        last = "connect";
        return DriverManager.getConnection(url);
    }

    static void execute(Connection connection, String... statements) throws SQLException {
        try (Statement statement = connection.createStatement()) {
            for (String text : statements) {
                last = text;
                statement.execute(text);
            }
        }
    }

    static void expect(Object found, Object wanted) {
        if (!found.equals(wanted)) {
            throw new IllegalStateException("found " + found + ", expected " + wanted);
        }
    }

    static void expectState(String state, Connection connection, String text) throws SQLException {
        try {
            execute(connection, text);
        } catch (SQLException error) {
            expect(error.getSQLState(), state);
            return;
        }
        throw new IllegalStateException("no error, expected SQLSTATE " + state);
    }

    static long one(Connection connection, String text) throws SQLException {
        last = text;
        try (Statement statement = connection.createStatement(); ResultSet rows = statement.executeQuery(text)) {
            rows.next();
            return rows.getLong(1);
        }
    }

    static PreparedStatement prepare(Connection connection, String text) throws SQLException {
        last = text;
        return connection.prepareStatement(text);
    }

    /** More uses than the five after which the driver names a statement. */
    static void values(Connection connection) throws Exception {
        execute(connection, "DROP TABLE IF EXISTS jv",
                "CREATE TABLE jv (id int PRIMARY KEY, t text, n numeric(10,2), ts timestamp, b bytea, f float8, o bool, l bigint)");
        Timestamp at = Timestamp.valueOf("2024-02-29 01:02:03.000004");
        try (PreparedStatement insert = prepare(connection, "INSERT INTO jv VALUES (?, ?, ?, ?, ?, ?, ?, ?)")) {
            for (int i = 0; i < 12; i++) {
                insert.setInt(1, i);
                insert.setString(2, "ü" + i);
                insert.setBigDecimal(3, new BigDecimal("12.50"));
                insert.setTimestamp(4, at);
                insert.setBytes(5, new byte[] {0, (byte) 255});
                insert.setDouble(6, 1.25);
                insert.setBoolean(7, true);
                insert.setLong(8, 1L << 60);
                expect(insert.executeUpdate(), 1);
            }
        }
        try (PreparedStatement query = prepare(connection, "SELECT t, n, ts, b, f, o, l FROM jv WHERE id = ?")) {
            for (int i = 0; i < 12; i++) {
                query.setInt(1, i);
                try (ResultSet rows = query.executeQuery()) {
                    expect(rows.next(), true);
                    expect(rows.getString(1), "ü" + i);
                    expect(rows.getBigDecimal(2), new BigDecimal("12.50"));
                    expect(rows.getTimestamp(3), at);
                    expect(rows.getBytes(4).length, 2);
                    expect(rows.getDouble(5), 1.25);
                    expect(rows.getBoolean(6), true);
                    expect(rows.getLong(7), 1L << 60);
                }
            }
        }
    }

    static void batches(Connection connection) throws Exception {
        execute(connection, "DROP TABLE IF EXISTS jb", "CREATE TABLE jb (id int PRIMARY KEY, v int)");
        try (PreparedStatement insert = prepare(connection, "INSERT INTO jb VALUES (?, ?)")) {
            for (int i = 0; i < 300; i++) {
                insert.setInt(1, i);
                insert.setInt(2, i);
                insert.addBatch();
            }
            expect(insert.executeBatch().length, 300);
            insert.setInt(1, 1);
            insert.setInt(2, 1);
            insert.addBatch();
            try {
                insert.executeBatch();
                throw new IllegalStateException("no error");
            } catch (BatchUpdateException error) {
                expect(error.getSQLState(), "23505");
            }
        }
        expect(one(connection, "SELECT count(*) FROM jb"), 300L);
    }

    static void fetchSizes(Connection connection) throws Exception {
        execute(connection, "DROP TABLE IF EXISTS jf", "CREATE TABLE jf (id int PRIMARY KEY)",
                "INSERT INTO jf SELECT g FROM generate_series(1, 500) g");
        connection.setAutoCommit(false);
        try (PreparedStatement query = prepare(connection, "SELECT id FROM jf ORDER BY id")) {
            query.setFetchSize(60);
            int count = 0;
            try (ResultSet rows = query.executeQuery()) {
                while (rows.next()) {
                    expect(rows.getInt(1), ++count);
                }
            }
            expect(count, 500);
        }
        connection.commit();
    }

    static void transactions(Connection connection) throws Exception {
        execute(connection, "DROP TABLE IF EXISTS jt", "CREATE TABLE jt (id int PRIMARY KEY)");
        connection.setTransactionIsolation(Connection.TRANSACTION_SERIALIZABLE);
        connection.setAutoCommit(false);
        execute(connection, "INSERT INTO jt VALUES (1)");
        java.sql.Savepoint savepoint = connection.setSavepoint();
        expectState("23505", connection, "INSERT INTO jt VALUES (1)");
        connection.rollback(savepoint);
        execute(connection, "INSERT INTO jt VALUES (2)");
        connection.commit();
        expect(one(connection, "SELECT count(*) FROM jt"), 2L);
        connection.rollback();
        connection.setReadOnly(true);
        expectState("25006", connection, "INSERT INTO jt VALUES (3)");
        connection.rollback();
    }

    static void generatedKeys(Connection connection) throws Exception {
        execute(connection, "DROP TABLE IF EXISTS jg", "CREATE TABLE jg (id serial PRIMARY KEY, v int)");
        last = "INSERT INTO jg (v) VALUES (7) with generated keys";
        try (PreparedStatement insert = connection.prepareStatement("INSERT INTO jg (v) VALUES (7)",
                Statement.RETURN_GENERATED_KEYS)) {
            insert.executeUpdate();
            try (ResultSet keys = insert.getGeneratedKeys()) {
                expect(keys.next(), true);
                expect(keys.getInt("id"), 1);
            }
        }
    }

    static void afterDefinitions(Connection connection) throws Exception {
        execute(connection, "DROP TABLE IF EXISTS jd", "CREATE TABLE jd (id int PRIMARY KEY)", "INSERT INTO jd VALUES (1)");
        try (PreparedStatement query = prepare(connection, "SELECT id FROM jd WHERE id = ?")) {
            for (int i = 0; i < 10; i++) {
                query.setInt(1, 1);
                try (ResultSet rows = query.executeQuery()) {
                    expect(rows.next(), true);
                }
                if (i == 7) {
                    execute(connection, "ALTER TABLE jd ADD COLUMN v int");
                }
            }
        }
    }

    static void copies(Connection connection) throws Exception {
        execute(connection, "DROP TABLE IF EXISTS jc", "CREATE TABLE jc (id int PRIMARY KEY, t text)");
        CopyManager copy = connection.unwrap(PGConnection.class).getCopyAPI();
        last = "COPY jc FROM STDIN";
        expect(copy.copyIn(last, new java.io.StringReader("1\tone\n2\t\\N\n")), 2L);
        java.io.StringWriter out = new java.io.StringWriter();
        last = "COPY jc TO STDOUT";
        expect(copy.copyOut(last, out), 2L);
    }

    static void cancelled(Connection connection) throws Exception {
        execute(connection, "DROP TABLE IF EXISTS jw", "CREATE TABLE jw (id int PRIMARY KEY, v int)", "INSERT INTO jw VALUES (1, 0)");
        try (Connection holder = connect("")) {
            holder.setAutoCommit(false);
            execute(holder, "UPDATE jw SET v = 1 WHERE id = 1");
            try (PreparedStatement update = prepare(connection, "UPDATE jw SET v = 2 WHERE id = 1")) {
                update.setQueryTimeout(1);
                try {
                    update.executeUpdate();
                    throw new IllegalStateException("the update did not wait");
                } catch (SQLException error) {
                    if (!List.of("57014", "40001").contains(error.getSQLState())) {
                        throw error;
                    }
                }
            }
        }
    }

    static void isValid(Connection connection) throws Exception {
        last = "";
        expect(connection.isValid(5), true);
    }

    static void metadata(Connection connection) throws Exception {
        execute(connection, "DROP TABLE IF EXISTS jm", "CREATE TABLE jm (id int PRIMARY KEY, t varchar(9) NOT NULL)",
                "CREATE INDEX jm_t ON jm (t)");
        DatabaseMetaData data = connection.getMetaData();
        last = "getTables of pg_catalog";
        List<String> names = new ArrayList<>();
        try (ResultSet rows = data.getTables(null, null, "jm", new String[] {"TABLE"})) {
            while (rows.next()) {
                names.add(rows.getString("TABLE_NAME"));
            }
        }
        expect(names, List.of("jm"));
        last = "getColumns of pg_catalog";
        names.clear();
        try (ResultSet rows = data.getColumns(null, null, "jm", null)) {
            while (rows.next()) {
                names.add(rows.getString("COLUMN_NAME") + rows.getInt("COLUMN_SIZE"));
            }
        }
        expect(names, List.of("id10", "t9"));
        last = "getPrimaryKeys of pg_catalog";
        try (ResultSet rows = data.getPrimaryKeys(null, null, "jm")) {
            expect(rows.next(), true);
            expect(rows.getString("COLUMN_NAME"), "id");
        }
        last = "getIndexInfo of pg_catalog";
        try (ResultSet rows = data.getIndexInfo(null, null, "jm", false, false)) {
            expect(rows.next(), true);
        }
    }

    static boolean check(String name, Check check) {
        try (Connection connection = connect("")) {
            check.run(connection);
            System.out.println("ok " + name);
            return true;
        } catch (Exception error) {
            String text = String.valueOf(error.getMessage()).replaceAll("\\s+", " ");
            String word = UNSUPPORTED.matcher(last + text).find() ? "unsupported" : "FAILED";
            System.out.println(word + " " + name + ": " + text + "; at: " + last);
            return false;
        }
    }

    public static void main(String[] args) {
        boolean good = check("values", Checks::values) & check("batches", Checks::batches)
                & check("fetch_sizes", Checks::fetchSizes) & check("transactions", Checks::transactions)
                & check("generated_keys", Checks::generatedKeys) & check("after_definitions", Checks::afterDefinitions)
                & check("copies", Checks::copies) & check("cancelled", Checks::cancelled)
                & check("is_valid", Checks::isValid) & check("metadata", Checks::metadata);
        System.exit(good ? 0 : 1);
    }
}
