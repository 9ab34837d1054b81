// SPDX-License-Identifier: BSD-3-Clause
//
// Mistake: an event of the connection manager isn't acknowledged before its id is destroyed.
//
// What happens: rdma_destroy_id() waits until each event of the id was given back by rdma_ack_cm_event(),
// without end. Often the function that is called for an event destroys the id, and the loop around it would
// acknowledge afterwards.
//
// Remedy: acknowledge first, and keep what is needed of the event; then destroy the id.
#include "pair.h"

int main(void) {
    struct rdma_event_channel* const events = rdma_create_event_channel();
    struct sockaddr_in address = own_address();
    struct rdma_cm_id* id = NULL;

    must(events != NULL, "rdma_create_event_channel");
    must(rdma_create_id(events, &id, NULL, RDMA_PS_TCP) == 0, "rdma_create_id");
    address.sin_port = 1; // any; nobody is asked there
    must(rdma_resolve_addr(id, NULL, (struct sockaddr*)&address, 5000) == 0, "rdma_resolve_addr");
    struct rdma_cm_event* const event = next_event(events);
    must(event->event == RDMA_CM_EVENT_ADDR_RESOLVED, "an address");

    watch("rdma_destroy_id() doesn't return");
#ifdef CORRECTED
    rdma_ack_cm_event(event);
#endif
    must(rdma_destroy_id(id) == 0, "rdma_destroy_id");
    rdma_destroy_event_channel(events);
    return verdict(NULL);
}
