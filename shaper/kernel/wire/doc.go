// Package wire is the netlink format of traffic control: messages to and from bytes, without any socket.
//
// The libraries do not serve here: go-tc leaves a pad byte out of struct tc_u32_sel, so that hash keys are wrong on the
// wire and in what is read back, and fails a whole dump at one attribute it does not know; vishvananda/netlink drops hash
// tables and packet counts of 64 bits. What is decoded here passes over attributes it does not know, and answers a message that is cut
// short with ErrMalformed, never with a panic.
//
// Sources: linux/netlink.h, linux/rtnetlink.h, linux/pkt_sched.h, linux/pkt_cls.h, linux/gen_stats.h. Numbers are in the
// host's byte order unless a comment says otherwise. It imports package tc and nothing else of ours.
package wire
