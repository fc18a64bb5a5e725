/* Another engine as ordered maps of bytes with transactions: what each file beside this one implements, and src/shim.rs calls.
 *
 * An engine is shared by threads; a session belongs to one thread at a time and has at most one transaction. Rows handed out
 * stay valid until the session's next call. Every function that returns an int gives one of the codes below; after PEER_FAULT
 * `peer_why` holds the reason of this thread's last failure. After PEER_CONFLICT or PEER_FAULT only `rollback` may follow. */
#ifndef PEER_H
#define PEER_H

#include <stddef.h>
#include <stdint.h>

enum { PEER_OK = 0, PEER_NONE = 1, PEER_EXISTS = 2, PEER_CONFLICT = 3, PEER_FAULT = 4 };

typedef struct {
    const uint8_t *at;
    size_t len;
} peer_bytes;

/* Nonzero: enough. */
typedef int (*peer_visit)(void *context, peer_bytes key, peer_bytes row);

struct peer_ops {
    /* Opens or creates an engine with tables 0 .. tables - 1 in an existing directory. `synced`: a commit returns when the
     * device has it; otherwise the log is written and never synced. */
    int (*open)(const char *dir, unsigned tables, int synced, void **engine);
    void (*close)(void *engine);
    int (*session)(void *engine, void **session);
    void (*end)(void *session);
    int (*begin)(void *session, int writes);
    int (*get)(void *session, unsigned table, peer_bytes key, int for_update, peer_bytes *row);
    /* `fresh`: PEER_EXISTS if there is a row already. */
    int (*put)(void *session, unsigned table, peer_bytes key, peer_bytes row, int fresh);
    int (*scan)(void *session, unsigned table, peer_visit visit, void *context);
    int (*commit)(void *session);
    int (*rollback)(void *session);
};

#define PEER_WHY_BYTES 256
extern _Thread_local char peer_why[PEER_WHY_BYTES];

/* Remembers why, and gives PEER_FAULT. */
int peer_fault(const char *what, const char *why);

#endif
