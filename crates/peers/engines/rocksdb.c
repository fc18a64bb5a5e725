/* RocksDB's pessimistic transactions (TransactionDB): serialisable by strict two-phase locking. A read is a GetForUpdate with a
 * shared lock, an update one with an exclusive lock and a Put. Unsynced: the log is written at every commit, never synced. Set up
 * to shine: everything in memtables and block cache, no compression, transaction objects reused, values read in place. Tried and
 * slower here, so left out: the preset for point look-ups, small memtables, single-writer memtables. A table is a prefix of
 * the key. */
#include "peer.h"

#include <rocksdb/c.h>
#include <stdlib.h>
#include <string.h>

#define MEMTABLE_BYTES ((size_t)256 << 20)
#define MEMTABLES 4
#define BLOCK_CACHE_BYTES ((size_t)1 << 30)
#define KEY_BYTES 256

typedef struct {
    rocksdb_transactiondb_t *db;
    rocksdb_writeoptions_t *write;
    rocksdb_readoptions_t *read;
    rocksdb_transaction_options_t *options;
} engine;

typedef struct {
    engine *engine;
    rocksdb_transaction_t *txn; /* begun again after its end */
    rocksdb_pinnableslice_t *row;
    char key[KEY_BYTES];
} session;

/* Locks that time out and deadlocks are "Operation timed out" and "Resource busy". */
static int code(const char *what, char *error) {
    int rc;
    if (!error) return PEER_OK;
    rc = strstr(error, "timed out") || strstr(error, "busy") ? PEER_CONFLICT : peer_fault(what, error);
    rocksdb_free(error);
    return rc;
}

static int rocks_open(const char *dir, unsigned tables, int synced, void **result) {
    engine *e = calloc(1, sizeof *e);
    char *error = NULL;
    (void)tables;
    if (!e) return peer_fault("open", "no memory");
    *result = e;
    rocksdb_options_t *options = rocksdb_options_create();
    rocksdb_block_based_table_options_t *table = rocksdb_block_based_options_create();
    rocksdb_cache_t *cache = rocksdb_cache_create_lru(BLOCK_CACHE_BYTES);
    rocksdb_transactiondb_options_t *locking = rocksdb_transactiondb_options_create();
    rocksdb_options_set_create_if_missing(options, 1);
    rocksdb_options_set_write_buffer_size(options, MEMTABLE_BYTES);
    rocksdb_options_set_max_write_buffer_number(options, MEMTABLES);
    rocksdb_options_set_compression(options, rocksdb_no_compression);
    rocksdb_block_based_options_set_block_cache(table, cache);
    rocksdb_options_set_block_based_table_factory(options, table);
    e->db = rocksdb_transactiondb_open(options, locking, dir, &error);
    e->write = rocksdb_writeoptions_create();
    rocksdb_writeoptions_set_sync(e->write, (unsigned char)synced);
    e->read = rocksdb_readoptions_create();
    e->options = rocksdb_transaction_options_create();
    rocksdb_transaction_options_set_deadlock_detect(e->options, 1);
    rocksdb_block_based_options_destroy(table);
    rocksdb_cache_destroy(cache);
    rocksdb_transactiondb_options_destroy(locking);
    rocksdb_options_destroy(options);
    return code("open", error);
}

static void rocks_close(void *engine_) {
    engine *e = engine_;
    if (e->db) rocksdb_transactiondb_close(e->db);
    rocksdb_writeoptions_destroy(e->write);
    rocksdb_readoptions_destroy(e->read);
    rocksdb_transaction_options_destroy(e->options);
    free(e);
}

static int rocks_session(void *engine_, void **result) {
    session *s = calloc(1, sizeof *s);
    if (!s) return peer_fault("session", "no memory");
    s->engine = engine_;
    *result = s;
    return PEER_OK;
}

static void let_go(session *s) {
    if (s->row) rocksdb_pinnableslice_destroy(s->row);
    s->row = NULL;
}

static void rocks_end(void *session_) {
    session *s = session_;
    let_go(s);
    if (s->txn) rocksdb_transaction_destroy(s->txn);
    free(s);
}

static int rocks_begin(void *session_, int writes) {
    session *s = session_;
    engine *e = s->engine;
    (void)writes;
    s->txn = rocksdb_transaction_begin(e->db, e->write, e->options, s->txn);
    return s->txn ? PEER_OK : peer_fault("begin", "no memory");
}

static size_t spell(session *s, unsigned table, peer_bytes key) {
    size_t len = key.len < KEY_BYTES - 1 ? key.len : KEY_BYTES - 1;
    s->key[0] = (char)table;
    memcpy(s->key + 1, key.at, len);
    return len + 1;
}

static int rocks_get(void *session_, unsigned table, peer_bytes key, int for_update, peer_bytes *row) {
    session *s = session_;
    char *error = NULL;
    size_t len = spell(s, table, key), row_len;
    let_go(s);
    s->row = rocksdb_transaction_get_pinned_for_update(s->txn, s->engine->read, s->key, len,
                                                       (unsigned char)for_update, &error);
    if (error) return code("get", error);
    if (!s->row) return PEER_NONE;
    row->at = (const uint8_t *)rocksdb_pinnableslice_value(s->row, &row_len);
    row->len = row_len;
    return row->at ? PEER_OK : PEER_NONE;
}

static int rocks_put(void *session_, unsigned table, peer_bytes key, peer_bytes row, int fresh) {
    session *s = session_;
    char *error = NULL;
    peer_bytes old;
    if (fresh) {
        int rc = rocks_get(s, table, key, 1, &old);
        if (rc != PEER_NONE) return rc == PEER_OK ? PEER_EXISTS : rc;
    }
    size_t len = spell(s, table, key);
    rocksdb_transaction_put(s->txn, s->key, len, (const char *)row.at, row.len, &error);
    return code("put", error);
}

static int rocks_scan(void *session_, unsigned table, peer_visit visit, void *context) {
    session *s = session_;
    char *error = NULL, prefix = (char)table;
    rocksdb_iterator_t *i = rocksdb_transaction_create_iterator(s->txn, s->engine->read);
    let_go(s);
    for (rocksdb_iter_seek(i, &prefix, 1); rocksdb_iter_valid(i); rocksdb_iter_next(i)) {
        size_t key_len, row_len;
        const uint8_t *key = (const uint8_t *)rocksdb_iter_key(i, &key_len);
        const uint8_t *row = (const uint8_t *)rocksdb_iter_value(i, &row_len);
        if (key[0] != (uint8_t)table || visit(context, (peer_bytes){key + 1, key_len - 1}, (peer_bytes){row, row_len})) break;
    }
    rocksdb_iter_get_error(i, &error);
    rocksdb_iter_destroy(i);
    return code("scan", error);
}

static int rocks_commit(void *session_) {
    session *s = session_;
    char *error = NULL;
    let_go(s);
    rocksdb_transaction_commit(s->txn, &error);
    return code("commit", error);
}

static int rocks_rollback(void *session_) {
    session *s = session_;
    char *error = NULL;
    let_go(s);
    rocksdb_transaction_rollback(s->txn, &error);
    return code("rollback", error);
}

const struct peer_ops peer_rocksdb = {rocks_open, rocks_close, rocks_session, rocks_end, rocks_begin,
                                      rocks_get, rocks_put, rocks_scan, rocks_commit, rocks_rollback};
