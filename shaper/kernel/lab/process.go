package lab

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
)

// Process is a program that runs in a server's namespace.
type Process struct {
	process *os.Process
	done    chan struct{}
	state   *os.ProcessState
	err     error
}

// Start runs the program at path in the server's namespace, with output, standard and error, to a file. It is killed when this
// process dies, however that happens, and has a process group of its own, so that the interrupt of a terminal does not reach
// it.
func (h *Host) Start(path string, args, env []string, output *os.File) (*Process, error) {
	var p *Process
	err := h.Do(func() (err error) {
		p, err = h.cluster.start(path, args, &os.ProcAttr{Dir: "/", Env: env, Files: []*os.File{nil, output, output}})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("start %s on %s: %w", path, h.Name, err)
	}
	return p, nil
}

// start runs a program in the namespace that the calling thread is in.
func (c *Cluster) start(path string, args []string, attr *os.ProcAttr) (*Process, error) {
	// The death signal comes when the starting thread ends; a thread that was in a namespace goes home and lives on (see prctl(2)).
	attr.Sys = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	process, err := os.StartProcess(path, append([]string{path}, args...), attr)
	if err != nil {
		return nil, err
	}
	p := &Process{process: process, done: make(chan struct{})}
	go func() {
		p.state, p.err = p.process.Wait()
		close(p.done)
	}()
	c.mu.Lock()
	c.processes = append(c.processes, p)
	c.mu.Unlock()
	return p, nil
}

// PID is the process id.
func (p *Process) PID() int { return p.process.Pid }

// Done is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Ended is how the process ended; call it after Done.
func (p *Process) Ended() string {
	if p.err != nil {
		return p.err.Error()
	}
	return p.state.String()
}

// Signal sends a signal; a process that has ended is no error.
func (p *Process) Signal(s syscall.Signal) error {
	if err := p.process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("signal process %d: %w", p.PID(), err)
	}
	return nil
}

// Stop asks the process to end and waits; one that has not ended in time is killed, which is an error, as is any exit code
// but 0.
func (p *Process) Stop(within time.Duration) error {
	if err := p.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	limit := time.NewTimer(within)
	defer limit.Stop()
	select {
	case <-p.done:
	case <-limit.C:
		p.Kill()
		return fmt.Errorf("stop process %d: it did not end within %s and was killed", p.PID(), within)
	}
	if p.err != nil || !p.state.Success() {
		return fmt.Errorf("stop process %d: it ended with %s", p.PID(), p.Ended())
	}
	return nil
}

// Kill ends the process at once and waits for it.
func (p *Process) Kill() {
	_ = p.process.Kill() // only one that has ended cannot be killed
	<-p.done
}
