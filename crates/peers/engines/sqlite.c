/* SQLite with a write-ahead log: one writer at a time, readers see a snapshot; serialisable. Keys are 8 bytes and become row
 * numbers, which is its fastest table. Unsynced: synchronous=OFF. A busy database is waited for. */
#include "peer.h"

#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>

#define MAX_TABLES 16

enum { GET, PUT, INSERT, SCAN, TABLE_STATEMENTS };
enum { BEGIN_READ, BEGIN_WRITE, COMMIT, ROLLBACK, STATEMENTS };

typedef struct {
    char path[512];
    unsigned tables;
    int synced;
} engine;

typedef struct {
    sqlite3 *db;
    sqlite3_stmt *table[MAX_TABLES][TABLE_STATEMENTS];
    sqlite3_stmt *plain[STATEMENTS];
    sqlite3_stmt *read; /* holds the row handed out */
} session;

static int code(sqlite3 *db, const char *what, int rc) {
    switch (rc) {
    case SQLITE_OK:
    case SQLITE_ROW:
    case SQLITE_DONE: return PEER_OK;
    case SQLITE_CONSTRAINT: return PEER_EXISTS;
    case SQLITE_BUSY: return PEER_CONFLICT;
    default: return peer_fault(what, sqlite3_errmsg(db));
    }
}

/* Order-preserving encodings of signed numbers have the sign turned over. */
static sqlite3_int64 number(peer_bytes key) {
    uint64_t n = 0;
    for (size_t i = 0; i < key.len; i++) n = n << 8 | key.at[i];
    return (sqlite3_int64)(n ^ (uint64_t)1 << 63);
}

static void spell(sqlite3_int64 number, uint8_t *to) {
    uint64_t n = (uint64_t)number ^ (uint64_t)1 << 63;
    for (int i = 7; i >= 0; i--, n >>= 8) to[i] = (uint8_t)n;
}

static int prepare(session *s, const char *sql, sqlite3_stmt **to) {
    return code(s->db, sql, sqlite3_prepare_v3(s->db, sql, -1, SQLITE_PREPARE_PERSISTENT, to, NULL));
}

static int lite_session(void *engine_, void **result) {
    static const char *plain[STATEMENTS] = {"BEGIN", "BEGIN IMMEDIATE", "COMMIT", "ROLLBACK"};
    static const char *of_table[TABLE_STATEMENTS] = {
        "SELECT v FROM t%u WHERE k = ?1", "INSERT OR REPLACE INTO t%u VALUES (?1, ?2)", "INSERT INTO t%u VALUES (?1, ?2)",
        "SELECT k, v FROM t%u ORDER BY k"};
    engine *e = engine_;
    session *s = calloc(1, sizeof *s);
    char sql[128];
    int rc;
    if (!s) return peer_fault("session", "no memory");
    *result = s;
    rc = sqlite3_open_v2(e->path, &s->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX, NULL);
    if (rc) return code(s->db, "open", rc);
    sqlite3_busy_timeout(s->db, 20000);
    snprintf(sql, sizeof sql, "PRAGMA journal_mode=WAL; PRAGMA synchronous=%s; PRAGMA cache_size=-1000000",
             e->synced ? "FULL" : "OFF");
    if ((rc = sqlite3_exec(s->db, sql, NULL, NULL, NULL))) return code(s->db, "pragma", rc);
    for (unsigned t = 0; t < e->tables; t++) {
        snprintf(sql, sizeof sql, "CREATE TABLE IF NOT EXISTS t%u (k INTEGER PRIMARY KEY, v BLOB)", t);
        if ((rc = sqlite3_exec(s->db, sql, NULL, NULL, NULL))) return code(s->db, "create", rc);
        for (int i = 0; i < TABLE_STATEMENTS; i++) {
            snprintf(sql, sizeof sql, of_table[i], t);
            if ((rc = prepare(s, sql, &s->table[t][i]))) return rc;
        }
    }
    for (int i = 0; i < STATEMENTS; i++)
        if ((rc = prepare(s, plain[i], &s->plain[i]))) return rc;
    return PEER_OK;
}

static void lite_end(void *session_) {
    session *s = session_;
    for (unsigned t = 0; t < MAX_TABLES; t++)
        for (int i = 0; i < TABLE_STATEMENTS; i++) sqlite3_finalize(s->table[t][i]);
    for (int i = 0; i < STATEMENTS; i++) sqlite3_finalize(s->plain[i]);
    sqlite3_close(s->db);
    free(s);
}

static int lite_open(const char *dir, unsigned tables, int synced, void **result) {
    engine *e = calloc(1, sizeof *e);
    void *first = NULL;
    int rc;
    if (!e || tables > MAX_TABLES) return peer_fault("open", "no memory, or too many tables");
    *result = e;
    snprintf(e->path, sizeof e->path, "%s/db", dir);
    e->tables = tables;
    e->synced = synced;
    rc = lite_session(e, &first); /* makes the tables */
    if (first) lite_end(first);
    return rc;
}

static void lite_close(void *engine_) { free(engine_); }

static int run(session *s, sqlite3_stmt *statement, const char *what) {
    int rc = sqlite3_step(statement);
    sqlite3_reset(statement);
    return code(s->db, what, rc);
}

static void let_go(session *s) {
    if (s->read) sqlite3_reset(s->read);
    s->read = NULL;
}

static int lite_begin(void *session_, int writes) {
    session *s = session_;
    return run(s, s->plain[writes ? BEGIN_WRITE : BEGIN_READ], "begin");
}

static int lite_get(void *session_, unsigned table, peer_bytes key, int for_update, peer_bytes *row) {
    session *s = session_;
    sqlite3_stmt *get = s->table[table][GET];
    int rc;
    (void)for_update;
    let_go(s);
    if (key.len != 8) return peer_fault("get", "expected a key of 8 bytes");
    sqlite3_bind_int64(get, 1, number(key));
    rc = sqlite3_step(get);
    if (rc != SQLITE_ROW) {
        sqlite3_reset(get);
        return rc == SQLITE_DONE ? PEER_NONE : code(s->db, "get", rc);
    }
    *row = (peer_bytes){sqlite3_column_blob(get, 0), (size_t)sqlite3_column_bytes(get, 0)};
    s->read = get;
    return PEER_OK;
}

static int lite_put(void *session_, unsigned table, peer_bytes key, peer_bytes row, int fresh) {
    session *s = session_;
    sqlite3_stmt *put = s->table[table][fresh ? INSERT : PUT];
    let_go(s);
    if (key.len != 8) return peer_fault("put", "expected a key of 8 bytes");
    sqlite3_bind_int64(put, 1, number(key));
    sqlite3_bind_blob(put, 2, row.at, (int)row.len, SQLITE_STATIC);
    return run(s, put, "put");
}

static int lite_scan(void *session_, unsigned table, peer_visit visit, void *context) {
    session *s = session_;
    sqlite3_stmt *scan = s->table[table][SCAN];
    uint8_t key[8];
    int rc;
    let_go(s);
    while ((rc = sqlite3_step(scan)) == SQLITE_ROW) {
        spell(sqlite3_column_int64(scan, 0), key);
        peer_bytes row = {sqlite3_column_blob(scan, 1), (size_t)sqlite3_column_bytes(scan, 1)};
        if (visit(context, (peer_bytes){key, sizeof key}, row)) break;
    }
    sqlite3_reset(scan);
    return code(s->db, "scan", rc);
}

static int lite_commit(void *session_) {
    session *s = session_;
    let_go(s);
    return run(s, s->plain[COMMIT], "commit");
}

static int lite_rollback(void *session_) {
    session *s = session_;
    let_go(s);
    return run(s, s->plain[ROLLBACK], "rollback");
}

const struct peer_ops peer_sqlite = {lite_open, lite_close, lite_session, lite_end, lite_begin,
                                     lite_get, lite_put, lite_scan, lite_commit, lite_rollback};
