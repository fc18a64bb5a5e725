#include "peer.h"

#include <stdio.h>

_Thread_local char peer_why[PEER_WHY_BYTES];

const char *peer_reason(void) { return peer_why; }

int peer_fault(const char *what, const char *why) {
    snprintf(peer_why, sizeof peer_why, "%s: %s", what, why ? why : "no reason given");
    return PEER_FAULT;
}
