// Superclasses: classes that were certified together, where no class alone could be.

const FIRST = 100000;  // the number of the first superclass

// The superclass that a certificate names; undefined where it names a class, or nothing.
export function superclassOf({ class_index, procedure }) {
  return class_index >= FIRST ? procedure.levels.flat()[class_index - FIRST] : undefined;
}

// Whether the answer of a certificate is the label of its image, or a superclass that the label belongs to.
export function isRight(certificate, label) {
  return superclassOf(certificate)?.classes.includes(label) ?? certificate.class_index === label;
}
