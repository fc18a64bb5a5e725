/* WiredTiger: multi-version rows in B+trees, MongoDB's engine. Snapshot isolation is its strongest level: weaker than
 * serialisable in general, equal for transactions that write every row they read, as those compared here that update do.
 * Two writers of a row conflict, and the loser repeats. Unsynced: the log is written and not synced. */
#include "peer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <wiredtiger.h>

#define MAX_TABLES 16

typedef struct {
    WT_CONNECTION *connection;
    unsigned tables;
} engine;

typedef struct {
    engine *engine;
    WT_SESSION *session;
    WT_CURSOR *cursors[MAX_TABLES]; /* overwrite: put */
    WT_CURSOR *fresh[MAX_TABLES];   /* no overwrite: insert */
} session;

static int code(const char *what, int rc) {
    switch (rc) {
    case 0: return PEER_OK;
    case WT_NOTFOUND: return PEER_NONE;
    case WT_DUPLICATE_KEY: return PEER_EXISTS;
    case WT_ROLLBACK: return PEER_CONFLICT;
    default: return peer_fault(what, wiredtiger_strerror(rc));
    }
}

static WT_ITEM item(peer_bytes b) {
    WT_ITEM i;
    memset(&i, 0, sizeof i);
    i.data = b.at;
    i.size = b.len;
    return i;
}

static peer_bytes out(const WT_ITEM *i) { return (peer_bytes){i->data, i->size}; }

static void uri(char *to, size_t size, unsigned table) { snprintf(to, size, "table:t%u", table); }

static int wt_open(const char *dir, unsigned tables, int synced, void **result) {
    engine *e = calloc(1, sizeof *e);
    WT_SESSION *s;
    char config[256], name[32];
    int rc;
    if (!e || tables > MAX_TABLES) return peer_fault("open", "no memory, or too many tables");
    *result = e;
    e->tables = tables;
    snprintf(config, sizeof config,
             "create,cache_size=2GB,session_max=256,log=(enabled=true,file_max=256MB),checkpoint=(log_size=512MB),"
             "transaction_sync=(enabled=%s,method=fsync)",
             synced ? "true" : "false");
    if ((rc = wiredtiger_open(dir, NULL, config, &e->connection))) return code("open", rc);
    if ((rc = e->connection->open_session(e->connection, NULL, NULL, &s))) return code("open", rc);
    for (unsigned t = 0; t < tables && !rc; t++) {
        uri(name, sizeof name, t);
        rc = s->create(s, name, "key_format=u,value_format=u");
    }
    s->close(s, NULL);
    return code("create", rc);
}

static void wt_close(void *engine_) {
    engine *e = engine_;
    if (e->connection) e->connection->close(e->connection, NULL);
    free(e);
}

static int wt_session(void *engine_, void **result) {
    session *s = calloc(1, sizeof *s);
    char name[32];
    int rc;
    if (!s) return peer_fault("session", "no memory");
    *result = s;
    s->engine = engine_;
    rc = s->engine->connection->open_session(s->engine->connection, NULL, "isolation=snapshot", &s->session);
    for (unsigned t = 0; t < s->engine->tables && !rc; t++) {
        uri(name, sizeof name, t);
        if (!(rc = s->session->open_cursor(s->session, name, NULL, NULL, &s->cursors[t])))
            rc = s->session->open_cursor(s->session, name, NULL, "overwrite=false", &s->fresh[t]);
    }
    return code("session", rc);
}

static void wt_end(void *session_) {
    session *s = session_;
    if (s->session) s->session->close(s->session, NULL);
    free(s);
}

static int wt_begin(void *session_, int writes) {
    session *s = session_;
    (void)writes;
    return code("begin", s->session->begin_transaction(s->session, NULL));
}

static int wt_get(void *session_, unsigned table, peer_bytes key, int for_update, peer_bytes *row) {
    WT_CURSOR *c = ((session *)session_)->cursors[table];
    WT_ITEM k = item(key), v;
    int rc;
    (void)for_update;
    c->set_key(c, &k);
    if (!(rc = c->search(c)) && !(rc = c->get_value(c, &v))) *row = out(&v);
    return code("get", rc);
}

static int wt_put(void *session_, unsigned table, peer_bytes key, peer_bytes row, int fresh) {
    session *s = session_;
    WT_CURSOR *c = fresh ? s->fresh[table] : s->cursors[table];
    WT_ITEM k = item(key), v = item(row);
    c->set_key(c, &k);
    c->set_value(c, &v);
    return code("put", fresh ? c->insert(c) : c->update(c));
}

static int wt_scan(void *session_, unsigned table, peer_visit visit, void *context) {
    WT_CURSOR *c = ((session *)session_)->cursors[table];
    WT_ITEM k, v;
    int rc = c->reset(c);
    while (!rc && !(rc = c->next(c))) {
        if ((rc = c->get_key(c, &k)) || (rc = c->get_value(c, &v))) break;
        if (visit(context, out(&k), out(&v))) break;
    }
    c->reset(c);
    return rc == WT_NOTFOUND ? PEER_OK : code("scan", rc);
}

static int wt_commit(void *session_) {
    session *s = session_;
    return code("commit", s->session->commit_transaction(s->session, NULL));
}

static int wt_rollback(void *session_) {
    session *s = session_;
    return code("rollback", s->session->rollback_transaction(s->session, NULL));
}

const struct peer_ops peer_wiredtiger = {wt_open, wt_close, wt_session, wt_end, wt_begin,
                                         wt_get, wt_put, wt_scan, wt_commit, wt_rollback};
