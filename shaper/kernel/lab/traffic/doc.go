// Package traffic fills a lab's cluster: bulk copies between any two servers, and the requests of services, of which each has its
// latency recorded.
//
// Both run in workers, processes of their own (lab.Worker), so that the copies can be nice to the requests: what the scheduler
// does to a request that was to be sent would look like the network. A worker's main function is Serve; the other side of it are
// Bulk and Requests. They speak JSON over the worker's standard input and output, with times of the machine's monotonic clock.
//
// The package imports lab and what its sockets need, and serves the demo and tests.
package traffic
