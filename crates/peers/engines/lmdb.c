/* LMDB: copy-on-write B+trees in a mapped file. One writer at a time, readers see a snapshot: serialisable, since a transaction
 * that writes is the only one that does. Unsynced is MDB_NOSYNC; MDB_WRITEMAP, which a crash can corrupt, is left out. */
#include "peer.h"

#include <lmdb.h>
#include <stdlib.h>

#define MAP_BYTES ((size_t)8 << 30)
#define MAX_TABLES 16

typedef struct {
    MDB_env *env;
    MDB_dbi tables[MAX_TABLES];
} engine;

typedef struct {
    engine *engine;
    MDB_txn *reader; /* kept from one reading transaction to the next */
    MDB_txn *writer;
    MDB_txn *now;
} session;

static int code(const char *what, int rc) {
    switch (rc) {
    case 0: return PEER_OK;
    case MDB_NOTFOUND: return PEER_NONE;
    case MDB_KEYEXIST: return PEER_EXISTS;
    default: return peer_fault(what, mdb_strerror(rc));
    }
}

static MDB_val val(peer_bytes b) { return (MDB_val){b.len, (void *)b.at}; }
static peer_bytes out(MDB_val v) { return (peer_bytes){v.mv_data, v.mv_size}; }

static int lmdb_open(const char *dir, unsigned tables, int synced, void **result) {
    engine *e = calloc(1, sizeof *e);
    MDB_txn *txn;
    int rc;
    if (!e || tables > MAX_TABLES) return peer_fault("open", "no memory, or too many tables");
    *result = e;
    if ((rc = mdb_env_create(&e->env)) || (rc = mdb_env_set_mapsize(e->env, MAP_BYTES)) ||
        (rc = mdb_env_set_maxdbs(e->env, MAX_TABLES)) || (rc = mdb_env_set_maxreaders(e->env, 256)) ||
        (rc = mdb_env_open(e->env, dir, MDB_NOTLS | (synced ? 0 : MDB_NOSYNC), 0600)) ||
        (rc = mdb_txn_begin(e->env, NULL, 0, &txn)))
        return code("open", rc);
    for (unsigned t = 0; t < tables; t++) {
        char name[3] = {'t', (char)('a' + t), 0};
        if ((rc = mdb_dbi_open(txn, name, MDB_CREATE, &e->tables[t]))) {
            mdb_txn_abort(txn);
            return code("open table", rc);
        }
    }
    return code("open", mdb_txn_commit(txn));
}

static void lmdb_close(void *engine_) {
    engine *e = engine_;
    if (e->env) mdb_env_close(e->env);
    free(e);
}

static int lmdb_session(void *engine_, void **result) {
    session *s = calloc(1, sizeof *s);
    if (!s) return peer_fault("session", "no memory");
    s->engine = engine_;
    *result = s;
    return PEER_OK;
}

static void lmdb_end(void *session_) {
    session *s = session_;
    if (s->writer) mdb_txn_abort(s->writer);
    if (s->reader) mdb_txn_abort(s->reader);
    free(s);
}

static int lmdb_begin(void *session_, int writes) {
    session *s = session_;
    int rc;
    if (writes) {
        rc = mdb_txn_begin(s->engine->env, NULL, 0, &s->writer);
        s->now = s->writer;
    } else {
        rc = s->reader ? mdb_txn_renew(s->reader) : mdb_txn_begin(s->engine->env, NULL, MDB_RDONLY, &s->reader);
        s->now = s->reader;
    }
    return code("begin", rc);
}

static int lmdb_get(void *session_, unsigned table, peer_bytes key, int for_update, peer_bytes *row) {
    session *s = session_;
    MDB_val k = val(key), v;
    int rc = mdb_get(s->now, s->engine->tables[table], &k, &v);
    (void)for_update;
    if (!rc) *row = out(v);
    return code("get", rc);
}

static int lmdb_put(void *session_, unsigned table, peer_bytes key, peer_bytes row, int fresh) {
    session *s = session_;
    MDB_val k = val(key), v = val(row);
    return code("put", mdb_put(s->now, s->engine->tables[table], &k, &v, fresh ? MDB_NOOVERWRITE : 0));
}

static int lmdb_scan(void *session_, unsigned table, peer_visit visit, void *context) {
    session *s = session_;
    MDB_cursor *cursor;
    MDB_val k, v;
    int rc = mdb_cursor_open(s->now, s->engine->tables[table], &cursor);
    if (rc) return code("scan", rc);
    while (!(rc = mdb_cursor_get(cursor, &k, &v, MDB_NEXT)))
        if (visit(context, out(k), out(v))) break;
    mdb_cursor_close(cursor);
    return rc == MDB_NOTFOUND ? PEER_OK : code("scan", rc);
}

static int lmdb_finish(session *s, int commit) {
    int rc = 0;
    if (s->now == s->reader) {
        mdb_txn_reset(s->reader);
    } else if (commit) {
        rc = mdb_txn_commit(s->writer);
    } else {
        mdb_txn_abort(s->writer);
    }
    s->now = s->writer = NULL;
    return code("commit", rc);
}

static int lmdb_commit(void *session_) { return lmdb_finish(session_, 1); }
static int lmdb_rollback(void *session_) { return lmdb_finish(session_, 0); }

const struct peer_ops peer_lmdb = {lmdb_open, lmdb_close, lmdb_session, lmdb_end, lmdb_begin,
                                   lmdb_get, lmdb_put, lmdb_scan, lmdb_commit, lmdb_rollback};
