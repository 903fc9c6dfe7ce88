// Package scenario makes happen what can happen to a node, for real, and holds what must follow: each script of testdata is one
// fault, told so that an operator can read it. PROMISES.md at the top of the module has the same faults in a table.
//
// A script runs the real program in a network namespace of its own, with a veth eth1, once in each layout of the filters. Its
// judge is the real tc. Scripts are those of github.com/rogpeppe/go-internal/testscript (its package comment has the language and
// the commands cd, chmod, cmp, cp, env, exists, grep, mkdir, mv, rm, symlink, stdout, stderr, ...); conditions of ours are [hash]
// and [list], the layout, and [system], the long form (build tag system). Scripts in testdata/system run in the long form only.
//
//	# PROMISES.md: A class is removed
//	daemon start
//	wanted
//	tc filter del dev eth1 parent 1:
//	tc class del dev eth1 classid 1:20
//	restored within 2s
//	log 1 'repaired what somebody else changed'
//	metric 'bulkshaper_drift_repairs_total{object="class"}' == 1
//
// The working folder holds the files of the script and, where it has none of that name, those of testdata/incident: config.yaml,
// roles.json, nyc1/jsons. Every wait is for a condition, up to half a minute; a script never just lets time pass.
//
// # The daemon
//
//	daemon start [-unready] [-under COMMAND] [FLAG...]   start `bulkshaper run` and wait until it says READY=1; -under runs it by another
//	                                                     program (setpriv ...), a word of several being split at its blanks
//	daemon stop                                          SIGTERM; it must end with 0
//	daemon kill                                          SIGKILL
//	daemon restart [FLAG...]                             stop and start
//	daemon signal NAME                                   HUP, STOP, CONT, TERM, USR1
//	daemon ends CODE                                     wait for it to end by itself
//	interrupt TIMES SIGNAL MOST [FLAG...]                start it and send it the signal at any moment up to MOST later, so many times, every other
//	                                                     time on a bare interface; at SIGTERM it must end with 0
//	daemon says PATTERN                                  wait for a message to the service manager (READY=1, STATUS=...) since the last such wait
//	bulkshaper COMMAND [FLAG...]                         any command of the program to its end, with --config, --layout and --run-dir where it
//	                                                     takes them; stdout and stderr are for the script; with ! it must fail
//
// # Another hand
//
//	tc ARG..., ip ARG...         as they are, in the node's namespace, with ! if it must fail; $NODE and $PEER are paths of the two namespaces
//	peer COMMAND ARG...          a program in the namespace at the other end of the wire
//	node COMMAND ARG...          a program in the node's namespace
//	batch FILE                   tc -batch
//	repeat TIMES PERIOD COMMAND ARG...   the command so often, one each period, whether it succeeds or not; COMMAND is tc, ip, batch, signal or put
//	fight PERIOD COMMAND ARG...  a program in the node's namespace, again and again until peace
//	peace                        the end of it
//	burst COUNT                  so many changes of class 1:777, for each of which the kernel tells its listeners something
//	chaos ROUNDS                 some random deeds of all kinds a round, after each of which what is wanted must stand
//	speed MBIT                   what a tap device says its speed is, as a card does that has negotiated anew
//	put FROM TO                  FROM takes the place of TO by rename, as an editor does it; FROM stays
//	replace FILE OLD NEW         put, of the file with OLD replaced by NEW
//	inventory COUNT              an inventory of so many servers with its config.yaml; the node is the first
//	odd KIND PATH                a fifo or a socket
//	size FILE BYTES              cut the file, or make it so large (sparse)
//	fill FOLDER COUNT            the files of so many servers, from 10.128.0.0 on
//	litter FOLDER COUNT          make and remove files that nobody reads
//	grow FILE                    a line each few milliseconds, until the script ends
//	mounts                       a mount namespace; $MOUNTS is its path for nsenter --mount=
//	exhaust UID                  take all inotify instances that the user may have (needs root)
//	port take, port free         listen where the metrics should
//	stuck COUNT                  so many scrapes that never read their answers, or never end their question
//	scrapes COUNT within DURATION   so many scrapes at once: whole answers or 503, some whole at least
//	unplug, plug                 remove the veth pair; make a new one
//
// # What must follow
//
//	wanted                       what tc shows now is what must stand: qdiscs and classes but for counters, filters by what they match and
//	                             where it goes. A filter's handle is not part of it: one that is made again may get another.
//	restored [within DURATION]   wait until tc shows that again, the daemon says in sync and `bulkshaper plan --exit-code` finds nothing to do.
//	                             DURATION counts from the begin of the last command of another hand to the daemon's own line
//	                             about the change, and where it has none to when tc showed it
//	differs                      tc must show something else now
//	untouched                    tc must show what is wanted now, handles and all, as it did at the time of wanted
//	log COUNT PATTERN            wait until so many lines of the log match; there must not be more, neither now nor at the end
//	log COUNT+ PATTERN           the same with more being right as well
//	log all MOST                 the whole log has so many lines at most
//	metric SERIES OP NUMBER      wait until the sum of the series that have these labels is so; OP is ==, != >= or <=
//	status FIELD VALUE           wait until the status has it: a gjson path, and a pattern for the whole value
//	answers PATH CODE [PATTERN]  wait until the HTTP answer has this code, and a body that matches
//	probe [PATH...]              from now on ask these all the time, or else /metrics and /-/healthy
//	answered within DURATION     stop that: none may have failed, none may have taken longer
//	sent COUNT ADDRESS CLASS     send so many packets, and wait until tc has counted them in the class
//	reaches ADDRESS CLASS        send a packet after the other until one is counted in the class
//	repairs within DURATION      longest of the times that restored has measured so far
//
// At its end each script is held to what no fault excuses: a daemon that still runs stops with 0 at SIGTERM; what it logged as
// warning or error, or not as JSON (a panic, a data race), is what the script names by log, no more.
package scenario
