package config

import (
	"bulkshaper/inventory/trust"
)

// Salvaged is what can be said of a config that is wrong. Nothing may be shaped by it: it is for finding the daemon that was started
// while it was right, and for telling all that is wrong at once.
type Salvaged struct {
	// Config has what could be read, over the defaults.
	Config *Config
	// Source says that Config.Source is what is written, and not a default that stands for what could not be read.
	Source bool
	// RunDir says that Config.RunDir is what is written or the default of a config that can be read as far as that.
	RunDir bool
}

// Salvage reads as much as it can of the config at path, "" for none. Where the file cannot be read or may not be trusted that is what the
// flags say.
func Salvage(path string, override Overrides) Salvaged {
	var data []byte
	if path != "" {
		var guard *trust.Guard
		if !override.on(allowFlag) {
			guard = trust.New()
		}
		var err error
		if data, err = readFile(path, guard); err != nil {
			data = nil
		}
	}
	c, d := decode(path, data, override)
	if data == nil {
		c.File = ""
	}
	given := func(key string) bool { _, ok := d.places[key]; return ok && !d.reported(key) }
	// A key that is not known may be a misspelled one of the inventory's.
	source := given("inventory.roles") && given("inventory.servers") || data != nil && !d.unknownAtTop
	runDir := given("run_dir") || data != nil && !d.unknownAtTop && !d.reported("run_dir") && len(d.places) > 0
	return Salvaged{c, source && !d.badInventory, runDir}
}
