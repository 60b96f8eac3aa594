package sentence

// Matryoshka is what a config.json says about vectors whose first numbers are a vector too.
type Matryoshka struct {
	Is         bool  `json:"is_matryoshka"`
	Dimensions []int `json:"matryoshka_dimensions"` // which numbers of dimensions; none stands for all, if Is is set
}

// ReadMatryoshka reads what the config.json of a folder says.
func ReadMatryoshka(dir string) (m Matryoshka, err error) {
	_, err = readJSON(dir, "config.json", &m)
	return m, err
}
