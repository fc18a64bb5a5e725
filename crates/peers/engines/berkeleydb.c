/* Berkeley DB: B+trees under two-phase page locks with a write-ahead log, the class of Shore-MT. Serialisable; a deadlock's
 * victim repeats. Unsynced: DB_TXN_WRITE_NOSYNC, the log is written at commit and not synced. */
#include "peer.h"

#include <db.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_TABLES 16
#define KEY_BYTES 256
#define ROW_BYTES 8192

typedef struct {
    DB_ENV *env;
    DB *tables[MAX_TABLES];
} engine;

typedef struct {
    engine *engine;
    DB_TXN *txn;
    uint8_t key[KEY_BYTES];
    uint8_t row[ROW_BYTES];
} session;

static int code(const char *what, int rc) {
    switch (rc) {
    case 0: return PEER_OK;
    case DB_NOTFOUND: return PEER_NONE;
    case DB_KEYEXIST: return PEER_EXISTS;
    case DB_LOCK_DEADLOCK:
    case DB_LOCK_NOTGRANTED: return PEER_CONFLICT;
    default: return peer_fault(what, db_strerror(rc));
    }
}

static DBT dbt(peer_bytes b) {
    DBT d;
    memset(&d, 0, sizeof d);
    d.data = (void *)b.at;
    d.size = (u_int32_t)b.len;
    return d;
}

static int bdb_open(const char *dir, unsigned tables, int synced, void **result) {
    engine *e = calloc(1, sizeof *e);
    char name[32];
    int rc;
    if (!e || tables > MAX_TABLES) return peer_fault("open", "no memory, or too many tables");
    *result = e;
    if ((rc = db_env_create(&e->env, 0))) return code("open", rc);
    DB_ENV *env = e->env;
    if ((rc = env->set_cachesize(env, 1, 0, 1)) || (rc = env->set_lg_bsize(env, 32u << 20)) ||
        (rc = env->set_lg_max(env, 256u << 20)) || (rc = env->set_lk_detect(env, DB_LOCK_DEFAULT)) ||
        (rc = env->set_lk_max_locks(env, 100000)) || (rc = env->set_lk_max_objects(env, 100000)) ||
        (rc = env->set_lk_max_lockers(env, 10000)) || (rc = env->log_set_config(env, DB_LOG_AUTO_REMOVE, 1)) ||
        (!synced && (rc = env->set_flags(env, DB_TXN_WRITE_NOSYNC, 1))) ||
        (rc = env->open(env, dir,
                        DB_CREATE | DB_INIT_TXN | DB_INIT_LOCK | DB_INIT_LOG | DB_INIT_MPOOL | DB_THREAD | DB_PRIVATE |
                            DB_RECOVER,
                        0600)))
        return code("open", rc);
    for (unsigned t = 0; t < tables; t++) {
        snprintf(name, sizeof name, "t%u", t);
        if ((rc = db_create(&e->tables[t], env, 0)) || (rc = e->tables[t]->set_pagesize(e->tables[t], 8192)) ||
            (rc = e->tables[t]->open(e->tables[t], NULL, name, NULL, DB_BTREE, DB_CREATE | DB_AUTO_COMMIT | DB_THREAD, 0600)))
            return code("open table", rc);
    }
    return PEER_OK;
}

static void bdb_close(void *engine_) {
    engine *e = engine_;
    for (unsigned t = 0; t < MAX_TABLES; t++)
        if (e->tables[t]) e->tables[t]->close(e->tables[t], 0);
    if (e->env) e->env->close(e->env, 0);
    free(e);
}

static int bdb_session(void *engine_, void **result) {
    session *s = calloc(1, sizeof *s);
    if (!s) return peer_fault("session", "no memory");
    s->engine = engine_;
    *result = s;
    return PEER_OK;
}

static void bdb_end(void *session_) {
    session *s = session_;
    if (s->txn) s->txn->abort(s->txn);
    free(s);
}

static int bdb_begin(void *session_, int writes) {
    session *s = session_;
    (void)writes;
    return code("begin", s->engine->env->txn_begin(s->engine->env, NULL, &s->txn, 0));
}

static int bdb_get(void *session_, unsigned table, peer_bytes key, int for_update, peer_bytes *row) {
    session *s = session_;
    DB *db = s->engine->tables[table];
    DBT k = dbt(key), v;
    int rc;
    memset(&v, 0, sizeof v);
    v.data = s->row;
    v.ulen = sizeof s->row;
    v.flags = DB_DBT_USERMEM;
    if (!(rc = db->get(db, s->txn, &k, &v, for_update ? DB_RMW : 0))) *row = (peer_bytes){v.data, v.size};
    return code("get", rc);
}

static int bdb_put(void *session_, unsigned table, peer_bytes key, peer_bytes row, int fresh) {
    session *s = session_;
    DB *db = s->engine->tables[table];
    DBT k = dbt(key), v = dbt(row);
    return code("put", db->put(db, s->txn, &k, &v, fresh ? DB_NOOVERWRITE : 0));
}

static int bdb_scan(void *session_, unsigned table, peer_visit visit, void *context) {
    session *s = session_;
    DB *db = s->engine->tables[table];
    DBC *cursor;
    DBT k, v;
    int rc = db->cursor(db, s->txn, &cursor, 0);
    if (rc) return code("scan", rc);
    memset(&k, 0, sizeof k);
    memset(&v, 0, sizeof v);
    k.data = s->key;
    k.ulen = sizeof s->key;
    v.data = s->row;
    v.ulen = sizeof s->row;
    k.flags = v.flags = DB_DBT_USERMEM;
    while (!(rc = cursor->get(cursor, &k, &v, DB_NEXT)))
        if (visit(context, (peer_bytes){k.data, k.size}, (peer_bytes){v.data, v.size})) break;
    cursor->close(cursor);
    return rc == DB_NOTFOUND ? PEER_OK : code("scan", rc);
}

static int bdb_commit(void *session_) {
    session *s = session_;
    DB_TXN *txn = s->txn;
    s->txn = NULL;
    return code("commit", txn->commit(txn, 0));
}

static int bdb_rollback(void *session_) {
    session *s = session_;
    DB_TXN *txn = s->txn;
    s->txn = NULL;
    return code("rollback", txn->abort(txn));
}

const struct peer_ops peer_berkeleydb = {bdb_open, bdb_close, bdb_session, bdb_end, bdb_begin,
                                         bdb_get, bdb_put, bdb_scan, bdb_commit, bdb_rollback};
