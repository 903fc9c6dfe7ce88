package override

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"time"

	"bulkshaper/shaper/runfile"
)

// FileName is the file in the run folder. It is JSON, but not named so: nobody is to take it for a server of the inventory.
const FileName = "overrides.state"

// Store is the file of a run folder.
//
// Who may write it is who may write into the folder: root, and the daemon's user, whose folder it is. A file that anybody else may
// have written is refused.
type Store struct {
	// Dir is the run folder.
	Dir string
}

// Load reads all overrides, also those that have ended. There are none where there is no file.
func (s Store) Load() ([]Override, error) {
	data, err := runfile.Read(s.Dir, FileName, maxFileSize)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read overrides: %w", err)
	}
	list, err := parse(data)
	if err != nil {
		return nil, fmt.Errorf("read overrides: %s/%s: %w; remove the file to have none", s.Dir, FileName, err)
	}
	return list, nil
}

// lockPatience is how long a writer waits for another one, who needs a millisecond.
const lockPatience = 2 * time.Second

// Update replaces the file by what change makes of its content, in one step, while no other process does the same.
func (s Store) Update(change func([]Override) ([]Override, error)) error {
	return s.update(lockPatience, change)
}

// Remove takes out what is in gone. It does not wait for another process: then the error is runfile.ErrLocked.
func (s Store) Remove(gone []Override) error {
	return s.update(0, func(list []Override) ([]Override, error) {
		return slices.DeleteFunc(list, func(o Override) bool { return slices.ContainsFunc(gone, o.Same) }), nil
	})
}

func (s Store) update(patience time.Duration, change func([]Override) ([]Override, error)) error {
	folder, err := runfile.Lock(s.Dir, os.O_RDONLY, patience)
	if err != nil {
		return fmt.Errorf("write overrides: %w", err)
	}
	defer folder.Close()
	list, err := s.Load()
	if err != nil {
		return err
	}
	next, err := change(slices.Clone(list))
	if err != nil {
		return err
	}
	if slices.EqualFunc(list, next, Override.Same) {
		return nil
	}
	data, err := format(next)
	if err == nil {
		err = runfile.Write(s.Dir, FileName, data, 0o644)
	}
	if err != nil {
		return fmt.Errorf("write overrides: %w", err)
	}
	return nil
}
